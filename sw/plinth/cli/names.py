"""What options may be called, said here so that `--help` loads nothing else; defaults are in `plinth.defaults`."""

#: Rows of `plinth bench`, in the order in which they run.
BENCH_NAMES = ("gemm_utilisation", "gemm_core_utilisation", "fixed_gemm_utilisation", "board_gemm_utilisation",
               "conv_utilisation_early", "conv_utilisation_mid1",
               "conv_utilisation_late1", "conv_utilisation_mid2", "conv_utilisation_late2",
               *(f"winograd_{what}_{layer}" for layer in ("early", "mid1", "late1", "mid2", "late2")
                 for what in ("utilisation", "speedup", "backward_speedup")),
               "scatter_efficiency", "gather_efficiency", "train_step_utilisation",
               "ring_efficiency", "ring_efficiency_torus", "ring_efficiency_full", "ring_efficiency_clusters",
               "transfer_efficiency", "ring_efficiency_links", "transfer_efficiency_links",
               "link_goodput_ber_1e-5", "serial_efficiency", "harness_efficiency", "thread_scaling", "cosim_rate",
               "mpi_cosim_scaling",
               "busy_machine_share", "numpy_overhead", "runtime_overhead", "runtime_scaling", "ring_over_library",
               "bits", "kill_recover_seconds", "digits_accuracy_nearest", "digits_accuracy_adagrad",
               "joint_over_hypar", "plan_vgg_e_seconds", "plan_1000_layers_seconds", "help_seconds_over_click",
               "plan_vgg_e_joint_seconds", "plan_lenet_c_seconds", "plan_alexnet_ring_4_seconds",
               "plan_joint_64_seconds", "plan_1000_layers_joint_seconds", "plan_1000_layers_command_seconds",
               "plan_200_branches_seconds",
               "pipeline_gain", "hybrid_speedup", "mpt_speedup_rtl",
               "rs_utilisation_conv1", "rs_utilisation_conv2",
               "rs_utilisation_conv3", "rs_utilisation_conv4", "rs_utilisation_conv5", "rs_utilisation_vgg_conv3_1",
               "rs_dram_words_per_mac", "systolic_dram_words_per_mac", "simulate_vgg_e_16_seconds",
               "simulate_vgg_e_1024_seconds", "agreement_error_mean", "agreement_error_worst",
               "agreement_holdout_mean", "agreement_holdout_worst", "agreement_mpt_mean", "agreement_mpt_worst",
               *(f"holdout_{tiles}{what}_{which}" for tiles in ("", "tiles_") for what in ("simulated", "predicted")
                 for which in ("mean", "worst")),
               "prediction_error_mean", "prediction_error_worst", "ranking_regret_worst", "grouped_error_mean",
               "grouped_error_worst", "network_error_mean", "network_error_worst", "prediction_false_drops",
               *(f"{row}_{kind}" for kind in ("f23_2d", "f23_1d", "f43_2d", "f43_1d")
                 for row in ("prediction_bits", "prediction_over_mpt", "prediction_over_mpt_unpooled")),
               "skip_bits_f23_forward", "skip_bits_f23_backward", "skip_bits_f43_forward", "skip_bits_f43_backward",
               "hypergraph_volume_ratio_worst", "hypergraph_volume_ratio_gmean", "hypergraph_messages_ratio_worst",
               "partition_seconds_4096", "hypergraph_small_p_ratio", "hypergraph_pruned_gmean", "sparse_kernel_ratio",
               "sparse_words_on_dies", "sparse_die_utilisation", "sparse_inference_scaling", "sparse_sgd_scaling",
               "sparse_words_over_formula", "fullest_owner", "ps_ar_crossover_error", "partition_search_gap",
               "staleness_gain", "hybrid_times", "hybrid_on_dies",
               "repeated_rows", "curves_of_ways", "api_lines", "projection_linear", "projection_error_over_pca",
               "profile_fit_error", "local_accuracy_gap", "local_accuracy_gap_quarter", "deep3_words_ratio",
               "deep3_words_ratio_projected", "deep3_time_ratio", "deep3_sixteen_kernels", "fixed_kernel_gap",
               "n_push_regret")
#: Rows of `plinth accuracy`; `plinth.bench.accuracy` has them.
ACCURACY_NAMES = ("fp32", "mixed", "nearest", "stochastic", "adagrad")
#: Costs of `plinth simulate`; `plinth.simulate.costs` has them.
COST_NAMES = ("die", "paper")
#: Kinds of reports that `plinth schema` knows; `plinth.files.reports` has them.
REPORT_NAMES = ("train", "local", "plan", "simulate", "step", "step-comparison", "eval", "bench", "accuracy",
                "reproduce", "profile", "list", "doctor")
#: Papers of `plinth reproduce`; `plinth.reproduce` has a file of each.
PAPERS = ("deep3", "hypar", "mpt", "parallax", "sparse-dnn")

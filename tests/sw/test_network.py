"""Networks from the zoo and from YAML; what is wrong with a file is said in one line."""

import pytest
import yaml

from plinth.errors import UserError
from plinth.model.network import ZOO, Dense, Network, load_network, perceptron


def test_digits_network_has_the_shape_of_the_main_job() -> None:
    network = ZOO["digits-mlp"]
    assert [(layer.inputs, layer.outputs) for layer in network.layers] == [(64, 128), (128, 64), (64, 10)]
    assert network.parameters == 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10


def test_a_yaml_file_makes_the_same_network(tmp_path) -> None:
    path = tmp_path / "net.yaml"
    layers = [{"name": layer.name, "inputs": layer.inputs, "outputs": layer.outputs,
               "activation": layer.activation} for layer in ZOO["digits-mlp"].layers]
    path.write_text(yaml.safe_dump({"version": 1, "name": "digits-mlp", "layers": layers}))
    assert load_network(str(path)) == ZOO["digits-mlp"]


GOOD_LAYER = {"name": "a", "inputs": 2, "outputs": 2, "activation": "softmax-cross-entropy"}


@pytest.mark.parametrize(("text", "needle"), [
    ("layers: [", "line 1"),
    ("- 1\n- 2\n", "a network is a mapping"),
    ("version: 2\nname: x\nlayers: []\n", "version must be 1"),
    ("version: 1\nname: x\nlayers: []\n", "1 to 256 layers"),
    ("version: 1\nname: x\nfoo: 1\nlayers: []\n", "unknown key 'foo'"),
    (yaml.safe_dump({"version": 1, "name": "x", "layers": [{**GOOD_LAYER, "inputs": 0}]}), "from 1 to"),
    (yaml.safe_dump({"version": 1, "name": "x", "layers": [{**GOOD_LAYER, "inputs": True}]}), "from 1 to"),
    (yaml.safe_dump({"version": 1, "name": "x", "layers": [{**GOOD_LAYER, "activation": "relu"}]}),
     "softmax-cross-entropy"),
    (yaml.safe_dump({"version": 1, "name": "x", "layers": [{"name": "a"}]}), "missing or unknown"),
    ("!!python/object/apply:os.system ['true']", "not valid YAML"),
])
def test_a_malformed_file_is_named_with_its_cause(tmp_path, text: str, needle: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_network(str(path))
    assert str(path) in str(caught.value)
    assert needle in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_list_what_exists() -> None:
    with pytest.raises(UserError, match="digits-mlp"):
        load_network("nope")
    with pytest.raises(UserError, match="cannot be read"):
        load_network("nowhere/net.yaml")


def test_layers_must_fit() -> None:
    with pytest.raises(ValueError, match="takes 3 inputs but layer 'a' gives 2"):
        Network(name="x", layers=(Dense(name="a", inputs=2, outputs=2, activation="relu"),
                                  Dense(name="b", inputs=3, outputs=2, activation="softmax-cross-entropy")))
    with pytest.raises(ValueError, match="no layers"):
        perceptron("x", (4,))

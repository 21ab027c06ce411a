"""Networks from YAML and back; what is wrong with a file is said in one line."""

import random
from typing import Any

import jschon
import numpy as np
import pytest
import yaml
from tests.support.networks import random_network

from plinth.array.array import ARRAYS
from plinth.array.file import array_schema, array_to_data
from plinth.errors import UserError
from plinth.files.documents import MAXIMUM_DEPTH, parse_yaml
from plinth.network.file import load_network, network_from_data, network_schema, network_to_data, network_to_yaml
from plinth.network.layers import KINDS
from plinth.network.network import perceptron
from plinth.network.zoo import NETWORKS


def random_networks() -> list:
    return [random_network(np.random.default_rng(seed)) for seed in range(300)]


def test_round_trip_is_the_identity() -> None:
    # Sparse layers name files; tests/sw/network/sparse/test_layers.py has them.
    kinds = {"sparse"}
    for network in [*NETWORKS.values(), *random_networks()]:
        text = network_to_yaml(network)
        again = network_from_data(parse_yaml(text, "x"), "x")
        assert again == network
        assert network_to_yaml(again) == text
        kinds |= {layer.kind for layer in network.layers}
    assert kinds == set(KINDS)


def test_a_stated_shape_stays() -> None:
    data = {"version": 2, "name": "a", "input": [3, 8, 8], "layers": [
        {"name": "c", "kind": "convolution", "channels": 4, "kernel": [3, 1], "shape": [4, 6, 8]},
        {"name": "loss", "kind": "mean-squared-error"}]}
    assert network_to_data(network_from_data(data, "x")) == data


@pytest.mark.parametrize(("padding", "written"), [
    (2, 2), ([2, 2], 2), ([1, 2], [1, 2]), ([1, 1, 1, 1], 1), ([1, 2, 1, 2], [1, 2]), ([0, 1, 1, 1], [0, 1, 1, 1])])
@pytest.mark.filterwarnings("ignore:Please use rfc3986:DeprecationWarning")
def test_padding_is_written_with_as_few_numbers_as_say_it(padding: Any, written: Any) -> None:
    data = {"version": 2, "name": "a", "input": [3, 8, 8], "layers": [
        {"name": "c", "kind": "convolution", "channels": 4, "kernel": 3, "padding": padding},
        {"name": "p", "kind": "max-pool", "kernel": 4, "stride": 2, "padding": padding},
        {"name": "loss", "kind": "mean-squared-error"}]}
    network = network_from_data(data, "x")
    again = network_to_data(network)
    assert [layer["padding"] for layer in again["layers"][:2]] == [written, written]
    assert network_from_data(again, "x") == network
    jschon.create_catalog("2020-12")
    schema = jschon.JSONSchema(network_schema())
    for each in (data, again):
        assert schema.evaluate(jschon.JSON(each)).valid


def good() -> dict[str, Any]:
    return network_to_data(NETWORKS["digits-cnn"])


def changed(place: int | None = None, remove: str | None = None, **changes: Any) -> dict[str, Any]:
    data = good()
    target = data if place is None else data["layers"][place]
    target.update(changes)
    if remove:
        del target[remove]
    return data


@pytest.mark.filterwarnings("ignore:Please use rfc3986:DeprecationWarning")
def test_the_schemas_describe_what_is_written() -> None:
    jschon.create_catalog("2020-12")
    network_form, array_form = jschon.JSONSchema(network_schema()), jschon.JSONSchema(array_schema())
    small = [network for network in NETWORKS.values() if len(network.layers) < 30]
    for network in [*small, *random_networks()[:30]]:
        assert network_form.evaluate(jschon.JSON(network_to_data(network))).valid, network.name
    for array in ARRAYS.values():
        assert array_form.evaluate(jschon.JSON(array_to_data(array))).valid, array.name
    for odd in (changed(3, channels=0), changed(3, chanels=1), changed(3, kind="convolutoin"), changed(remove="input")):
        assert not network_form.evaluate(jschon.JSON(odd)).valid
    assert not array_form.evaluate(jschon.JSON({**array_to_data(ARRAYS["ring-4"]), "link_rate": -1})).valid


@pytest.mark.parametrize(("data", "needle"), [
    ([1, 2], "a network is a mapping, not a list"),
    (changed(version=1), "version must be 2, not 1; .*plinth schema network"),
    (changed(version=True), "version must be 2"),
    (changed(remove="version"), "version must be 2, not nothing"),
    (changed(remove="name"), "key 'name' is missing"),
    (changed(layer=[]), "unknown key 'layer'; did you mean 'layers'"),
    (changed(name=7), "name must be"),
    (changed(layers=[]), "list of 1 to 4096 layers"),
    (changed(layers="many"), "list of 1 to 4096 layers"),
    (changed(input=64), "input must be \\[features\\]"),
    (changed(input=[8, 8]), "input must be"),
    (changed(input=["1e3"]), "the text '1e3'; YAML reads it as text, write the number in plain digits"),
    (changed(input=[1, 0, 8]), "from 1 to"),
    (changed(3, channels="1e3"), r"layer 4 \('conv2'\): channels must be an integer .* write the number in plain"),
    (changed(3, channels=0), r"layer 4 \('conv2'\): channels must be an integer from 1"),
    (changed(3, channels=3.5), "not 3.5"),
    (changed(3, chanels=3), "unknown key 'chanels'; did you mean 'channels'"),
    (changed(3, remove="channels"), "key 'channels' is missing; a convolution layer has name, kind, channels, kernel"),
    (changed(3, kind="convolutoin"), "unknown kind the text 'convolutoin'; did you mean 'convolution'"),
    (changed(3, kind=["a"]), "unknown kind"),
    (changed(3, remove="kind"), "unknown key|key 'kind' is missing"),
    (changed(3, bias="yes"), "bias must be true or false"),
    (changed(3, padding=[1, 1, 1]), r"layer 4 \('conv2'\): padding must be an integer from 0 to .* or four"),
    (changed(3, padding=[0, 1, "x", 1]), r"layer 4 \('conv2'\): padding must be"),
    (changed(3, kernel=[3, 3, 3]), "kernel must be an integer from 1"),
    (changed(3, groups=2), "unknown key 'groups'"),
    (changed(3, inputs="pool1"), "inputs must be a list"),
    (changed(3, inputs=[]), "inputs must be a list"),
    (changed(3, inputs=["pool9"]), r"layer 'conv2' \(convolution\) reads the text 'pool9', which is no layer"),
    (changed(3, shape=[32, 4]), "shape must be"),
    (changed(3, shape=[32, 5, 5]), "states shape 32x5x5, but layer 'pool1' gives 8x4x4, from which 20x4x4 follows"),
    (changed(3, kernel=9), "layer 'conv2' .* kernel of 9x9, larger than the 8x4x4 that layer 'pool1' gives"),
    (changed(6, kind="relu"), "layer 'fc1' .* layer 'flatten' gives a map of 20x2x2"),
    (changed(3, name="a b"), "name must be"),
    (changed(3, name=3), "name must be"),
    (changed(3, name="conv1"), "two layers are called 'conv1'"),
])
def test_a_malformed_network_is_named_with_its_cause(tmp_path, data, needle: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError, match=needle) as caught:
        load_network(str(path))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


HEAD = "version: 2\nname: a\ninput: [4]\n"


@pytest.mark.parametrize(("text", "needle"), [
    ("layers: [", "line [12]: not valid YAML"),
    ("a: &x [1]\nb: *x\n", "line 1: anchor 'x'"),
    ("a: *x\n", "line 1: (alias 'x'|not valid YAML)"),
    ("".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 1}]\n" for n in range(9)), "line 1: anchor"),
    (f"{HEAD}name: b\n", "line 4: key 'name' stands twice"),
    ("!!python/object/apply:os.system ['true']", "line 1: tag .*only plain values"),
    ("a: !!binary aGk=\n", "tag"),
    ("---\na: 1\n---\nb: 2\n", "second document"),
    ("[" * (MAXIMUM_DEPTH + 1), f"nested deeper than {MAXIMUM_DEPTH}"),
    ("[" * 100_000, "nested deeper|not valid"),
    ("? [1]\n: 2\n", "key .* is no text"),
    ("1: 2\n", "key 1 is no text"),
    ("version: 010\n", "'010' is no plain decimal"),
    ("version: 1:30\n", "'1:30' is no plain decimal"),
    ("version: 0x10\n", "'0x10' is no plain decimal"),
    ("version: 1_0\n", "'1_0' is no plain decimal"),
    (f"version: {'9' * 10_000}\n", "no plain decimal"),
    ("\0", "not valid YAML"),
    ("", "a network is a mapping, not nothing"),
    (f"{HEAD}layers:\n- {{name: fc, kind: dense, outputs: 1e3}}\n- {{name: loss, kind: softmax-cross-entropy}}\n",
     r"layer 1 \('fc'\): outputs must be .* not the text '1e3'; YAML reads it as text"),
    (f"{HEAD}layers:\n- {{name: no, kind: dense, outputs: 3}}\n- {{name: loss, kind: softmax-cross-entropy}}\n",
     "not false"),
])
def test_yaml_is_read_as_untrusted(tmp_path, text: str, needle: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=needle) as caught:
        load_network(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text_or_too_large(tmp_path) -> None:
    path = tmp_path / "net.yaml"
    path.write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(UserError, match="no UTF-8 at byte 6"):
        load_network(str(path))
    path.write_text("a: " + "x" * (1 << 20))
    with pytest.raises(UserError, match="larger than 1048576 bytes"):
        load_network(str(path))
    with pytest.raises(UserError, match="cannot be read"):
        load_network("nowhere/net.yaml")
    with pytest.raises(UserError, match="cannot be read"):
        load_network(str(tmp_path.with_suffix(".yaml")))


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UserError, match="'digits-mpl' is unknown; did you mean 'digits-mlp'"):
        load_network("digits-mpl")
    with pytest.raises(UserError, match="known are digits-mlp, "):
        load_network("nope")


def test_damaged_files_end_in_one_line(tmp_path) -> None:
    generator = random.Random(1)
    whole = network_to_yaml(NETWORKS["digits-cnn"])
    path = tmp_path / "net.yaml"
    refused = 0
    for _ in range(400):
        text = list(whole)
        for _ in range(3):
            text[generator.randrange(len(text))] = generator.choice("[]{}:,&*!|>-'\"#%@`\n\t 019ae\0é")
        path.write_text("".join(text))
        try:
            load_network(str(path))
        except UserError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 200


def test_a_chain_of_a_thousand_layers_is_read(tmp_path) -> None:
    network = perceptron("long", (16,) * 1001)
    path = tmp_path / "long.yaml"
    path.write_text(network_to_yaml(network))
    assert load_network(str(path)) == network

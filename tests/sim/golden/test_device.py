"""Dies of the golden model from their descriptors: queues, waits, counters, records, registers, refusals."""

from typing import Any

import numpy as np
import pytest

from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, HEADER_WORDS, RECORD_WORDS, Record, TaskHeader
from plinth_hw.isa.formats import Q3_12, factor_word
from plinth_hw.isa.layout import pack, unpack
from plinth_hw.isa.operations import (
    CollectiveOperation,
    Engine,
    ErrorCode,
    MatrixOperation,
    OptimiserOperation,
    Traffic,
    TransferOperation,
    UpdateOperation,
    VectorOperation,
)
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import ControlBits, EngineRegister, Register, Status
from plinth_hw.isa.tasks import BODIES
from plinth_hw.isa.update_bodies import ROUTES_SET
from plinth_hw.isa.vector_body import VectorOp
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.device import DescriptorError
from plinth_sim.golden.transfer import Rows
from plinth_sim.golden.transport import PeerLostError, RingChunks, Tile

TINY = preset("ndp-tiny")
WORDS, TASKS, RECORDS = 4096, 2048, 3584
ENGINES = {MatrixOperation: Engine.MATRIX, VectorOperation: Engine.VECTOR, CollectiveOperation: Engine.COLLECTIVE,
           TransferOperation: Engine.TRANSFER, OptimiserOperation: Engine.OPTIMISER}
Task = tuple[Any, dict[str, Any], dict[str, Any]]


def at(offset: int, base: int = 0) -> dict[str, int]:
    return {"offset": offset, "base": base}


def copy(source: int, destination: int, words: int = 1, **fields: Any) -> tuple[Any, dict[str, Any]]:
    return TransferOperation.COPY, {"source": at(source), "destination": at(destination), "columns": words, "rows": 1,
                                    "planes": 1, **fields}


def task(what: tuple[Any, dict[str, Any]], **header: Any) -> Task:
    return what[0], what[1], header


def waiting(*waits: tuple[int, int]) -> dict[str, Any]:
    """Header fields of waits (counter, value), in the upper places of four."""
    first = 4 - len(waits)
    return {"wait_enable": (1 << 4) - (1 << first), "wait_counter": [0] * first + [counter for counter, _ in waits],
            "wait_value": [0] * first + [value for _, value in waits]}


def program(array: GoldenArray, die: int, tasks: list[Task]) -> None:
    """Write descriptors; the last one ends the graph."""
    device, words_of = array.dies[die], array.dies[die].parameters.words_of
    for number, (operation, body, header) in enumerate(tasks):
        words = pack(TaskHeader, {"engine": ENGINES[type(operation)], "operation": operation.value,
                                  "last": number == len(tasks) - 1, **header})
        address = TASKS + words_of(DESCRIPTOR_WORDS) * number
        device.write_memory(address, np.array(words, dtype=np.uint32))
        device.write_memory(address + words_of(HEADER_WORDS), np.array(pack(BODIES[operation], body), dtype=np.uint32))
    device.write_register(Register.TASK_BASE, TASKS)
    device.write_register(Register.RECORD_BASE, RECORDS)


def loaded(*graphs: list[Task], parameters: DieParameters = TINY) -> GoldenArray:
    """Dies with a graph each, and in word w of die d the number 1000 d + w, as FP32."""
    array = GoldenArray(parameters, len(graphs), WORDS)
    for number, tasks in enumerate(graphs):
        array.dies[number].write_memory(0, (1000 * number + np.arange(1024)).astype(np.float32).view(np.uint32))
        program(array, number, tasks)
    return array


def filled(parameters: DieParameters, image: np.ndarray, *graphs: list[Task],
           bases: dict[int, int] | None = None) -> tuple[GoldenArray, list[np.ndarray]]:
    """Dies with an image in memory, a graph and base registers each; what their memories hold before they run."""
    array = GoldenArray(parameters, len(graphs), WORDS)
    for number, tasks in enumerate(graphs):
        die = array.dies[number]
        # No two dies hold the same.
        die.write_memory(0, image ^ image.dtype.type(number << 9))
        for base, value in (bases or {}).items():
            die.write_register(regs.BASES + 4 * base, value)
        program(array, number, tasks)
    return array, [die.read_memory(0, WORDS) for die in array.dies]


def run(array: GoldenArray) -> GoldenArray:
    for die in array.dies:
        die.write_register(Register.CONTROL, 1)
    array.wait(0)
    return array


def floats(array: GoldenArray, die: int, address: int, count: int) -> list[float]:
    return array.dies[die].read_memory(address, count).view(np.float32).tolist()


def error(array: GoldenArray, die: int = 0) -> tuple[int, int, int]:
    return tuple(array.dies[die].read_register(register) for register in (  # type: ignore[return-value]
        Register.ERROR_CODE, Register.ERROR_TASK, Register.ERROR_INFO))


def status(array: GoldenArray, die: int = 0) -> int:
    return array.dies[die].read_register(Register.STATUS)


GEMM = (MatrixOperation.GEMM, {"a": at(1), "a_stride": 3, "b": at(20), "b_stride": 4, "c": at(100), "c_stride": 5,
                               "m": 2, "n": 4, "k": 3})
RELU = (VectorOperation.PROGRAM, {
    "rows": 1, "columns": 2, "loads": 1, "stores": 1, "instructions": 1, "load": [{"pointer": at(5), "region": 0}],
    "store": [{"pointer": at(200), "region": 0}],
    "program": [{"op": VectorOp.SCALE, "dst": 0, "a": 0}], "immediates": [0x40000000, 0, 0, 0]})


def test_every_engine_works_on_memory() -> None:
    array = run(loaded([task(GEMM), task(RELU), task(copy(7, 300, 3))]))
    a, b = np.arange(1, 7, dtype=float).reshape(2, 3), np.arange(20, 32, dtype=float).reshape(3, 4)
    assert [floats(array, 0, 100 + 5 * row, 4) for row in range(2)] == (a @ b).tolist()
    assert floats(array, 0, 200, 2) == [10, 12] and floats(array, 0, 300, 3) == [7, 8, 9]
    assert (status(array), *error(array)) == (2, 0, 0, 0)


def test_a_convolution_reads_zeros_outside_its_map() -> None:
    """The last place of the last window lies behind the map's five columns; the map may end with the memory."""
    operation, body = CONVOLUTION
    array = loaded([task((operation, {**body, "map_columns": 5, "a": at(WORDS - 5), "c": at(WORDS - 25)}))])
    array.dies[0].write_memory(WORDS - 5, np.arange(1, 6).astype(np.float32).view(np.uint32))
    run(array)
    a, b = np.array([[1, 2, 3], [4, 5, 0]], dtype=float), np.arange(20, 32, dtype=float).reshape(3, 4)
    assert status(array) == 2
    assert [floats(array, 0, WORDS - 25 + 5 * row, 4) for row in range(2)] == (a @ b).tolist()


@pytest.mark.parametrize("turned", ["transpose_a", "transpose_b"])
def test_products_of_turned_operands_are_added(turned: str) -> None:
    operation, body = GEMM
    array = run(loaded([task((operation, {**body, turned: 1, "accumulate": 1, "a_stride": 6, "b_stride": 7}))]))
    memory = np.arange(1024, dtype=float)

    def stored(first: int, rows: int, columns: int, stride: int) -> np.ndarray:
        return np.array([memory[first + stride * row:first + stride * row + columns] for row in range(rows)])

    a = stored(1, 3, 2, 6).T if turned == "transpose_a" else stored(1, 2, 3, 6)
    b = stored(20, 4, 3, 7).T if turned == "transpose_b" else stored(20, 3, 4, 7)
    wanted = stored(100, 2, 4, 5) + a @ b
    assert [floats(array, 0, 100 + 5 * row, 4) for row in range(2)] == wanted.tolist()


def test_numbers_at_the_ends_of_a_fixed_format_are_counted() -> None:
    """Over all tasks until they are cleared: stored sums that are an end, and results of the vector engine beyond the
    format."""
    operation, body = GEMM
    twice = (VectorOperation.PROGRAM, {**RELU[1], "columns": 4, "immediates": [factor_word(Q3_12, 2), 0, 0, 0]})
    product = task((operation, {**body, "accumulate": 1, "a": at(400), "b": at(420)}))
    array = loaded([product, product, task(twice)], parameters=preset("fpga-tiny"))
    die = array.dies[0]
    for address, values in ((400, [0] * 60), (5, [3.5, -5, 4, -4.5]), (100, [8, -8, 7.999, 0]), (105, [1, 9, -1, 0])):
        die.write_memory(address, Q3_12.encode(np.array(values)).astype(np.int16).view(np.uint16))
    run(array)
    assert (status(array), *error(array)) == (2, 0, 0, 0)
    assert die.read_memory(200, 4).view(np.int16).tolist() == [7 << 12, -8 << 12, (8 << 12) - 1, -8 << 12]
    counts = [die.read_register(register) for register in (Register.SUMS_AT_ENDS, Register.RESULTS_BEYOND)]
    die.write_register(Register.CONTROL, 4)
    cleared = [die.read_register(register) for register in (Register.SUMS_AT_ENDS, Register.RESULTS_BEYOND)]
    assert (counts, cleared) == ([6, 3], [0, 0])


def test_ends_are_looked_for_among_the_sums_of_a_convolution() -> None:
    """Two windows of three numbers, four filters: five of eight sums are an end."""
    array = loaded([task(CONVOLUTION)], parameters=preset("fpga-tiny"))
    die = array.dies[0]
    for address, values in ((0, [0] * 1024), (1, [4, 0, 0, 0, 4]), (20, [1, 3, 3, -3]), (24, [3, 0, 1, -4])):
        die.write_memory(address, Q3_12.encode(np.array(values)).astype(np.int16).view(np.uint16))
    run(array)
    assert (status(array), die.read_register(Register.SUMS_AT_ENDS)) == (2, 5)


def test_pointers_have_bases() -> None:
    operation, fields = copy(3, 2, 2)
    array = loaded([task((operation, {**fields, "source": at(3, 15), "destination": at(2, 4)}))])
    array.dies[0].write_register(regs.BASES + 4 * 15, 40)
    array.dies[0].write_register(regs.BASES + 4 * 4, 500)
    assert floats(run(array), 0, 502, 2) == [43, 44]


def test_engines_run_their_own_tasks_in_order_and_wait_for_counters() -> None:
    """The vector task waits for the second transfer, the third transfer for the vector task."""
    array = loaded([task((RELU[0], {**RELU[1], "load": [{"pointer": at(401), "region": 0}]}), advance_enable=1,
                         advance=9, **waiting((7, 1), (8, 2))),
                    task(copy(10, 400), advance_enable=1, advance=8), task(copy(20, 401), advance_enable=1, advance=8),
                    task(copy(30, 402), advance_enable=1, advance=7), task(copy(200, 403, 2), **waiting((9, 1)))])
    assert floats(run(array), 0, 400, 5) == [10, 20, 30, 40, 60]
    assert [array.dies[0].read_register(regs.COUNTERS + 4 * counter) for counter in range(6, 11)] == [0, 1, 2, 1, 0]


@pytest.mark.parametrize("counter, base, value, meets", [
    (5, 3, 2, True), (4, 3, 2, False), (0x7FFFFFFF, 0xFFFFFFFF, 1, True), (0x80000000, 0xFFFFFFFF, 1, False),
    (2, 0xFFFFFFFE, 4, True), (1, 0xFFFFFFFE, 4, False), (0xFFFFFFFF, 0xFFFFFFFE, 4, False)])
def test_waits_are_counted_from_a_base_and_go_round(counter: int, base: int, value: int, meets: bool) -> None:
    array = loaded([task(copy(5, 600), **waiting((6, value)))])
    array.dies[0].write_register(regs.COUNTERS + 4 * 6, counter)
    array.dies[0].write_register(regs.COUNTER_BASES + 4 * 6, base)
    run(array)
    assert floats(array, 0, 600, 1) == [5.0 if meets else 600.0]
    assert error(array)[:2] == ((0, 0) if meets else (ErrorCode.TIMEOUT.value, TASKS))


def test_a_die_that_waits_in_vain_says_for_what() -> None:
    array = loaded([task(copy(5, 600)), task(copy(5, 601), **waiting((2, 0), (6, 4), (7, 9)))])
    array.dies[0].write_register(regs.COUNTER_BASES + 4 * 6, 11)
    array.dies[0].write_register(regs.COUNTERS + 4 * 2, 0x7FFFFFFF)
    run(array)
    block = regs.ENGINES + regs.ENGINE_SPAN * Engine.TRANSFER.value
    assert [array.dies[0].read_register(block + register) for register in (
        EngineRegister.TASK, EngineRegister.WAIT_COUNTER, EngineRegister.WAIT_VALUE)] == [
        TASKS + DESCRIPTOR_WORDS, 6 | 1 << 31, 15]
    assert error(array) == (ErrorCode.TIMEOUT.value, TASKS + DESCRIPTOR_WORDS, Engine.TRANSFER.value | 6 << 8)
    assert status(array) == 5
    assert floats(array, 0, 600, 2) == [5, 601]


def test_records_follow_each_other() -> None:
    array = loaded([task(copy(5, 600), record=1, tag=77), task(copy(5, 601)), task(RELU, record=1, tag=78,
                                                                                   **waiting((1, 0)))])
    array.dies[0].write_register(Register.RECORD_COUNT, 2)
    run(array)
    device = array.dies[0]
    assert device.read_register(Register.RECORD_COUNT) == 4
    records = [unpack(Record, device.read_memory(RECORDS + RECORD_WORDS * number, RECORD_WORDS)) for number in (2, 3)]
    assert sorted((record.task, record.tag, Engine(record.engine)) for record in records) == [
        (TASKS, 77, Engine.TRANSFER), (TASKS + 2 * DESCRIPTOR_WORDS, 78, Engine.VECTOR)]


def test_counters_of_other_dies() -> None:
    remote = {"remote_enable": 1, "remote_die": 1, "remote_counter": 12}
    array = run(loaded([task(copy(5, 600), **remote)],
                       [task(copy(6, 601), **waiting((12, 1)))]))
    assert floats(array, 1, 601, 1) == [1006] and array.dies[1].counters[12] == 1 and array.dies[0].counters[12] == 0


def test_tiles_go_to_other_dies_and_advance_counters_there() -> None:
    tile = {"remote": 1, "destination_die": 1, "arrival_enable": 1, "arrival": 13}
    array = run(loaded([task(copy(5, 600, 2, **tile))], [task(copy(600, 700, 2), **waiting((13, 1)))]))
    assert floats(array, 1, 600, 2) == floats(array, 1, 700, 2) == [5, 6] and floats(array, 0, 600, 2) == [600, 601]
    operation, fields = copy(5, 600, 2, **tile)
    array = run(loaded([task((TransferOperation.ADD, fields))], [task(copy(600, 700, 2), **waiting((13, 1)))]))
    assert operation is TransferOperation.COPY and floats(array, 1, 700, 2) == [1605, 1607]


@pytest.mark.parametrize("operation", [CollectiveOperation.ALL_REDUCE, CollectiveOperation.REDUCE_SCATTER,
                                       CollectiveOperation.ALL_GATHER])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_collectives(operation: CollectiveOperation, order: tuple[int, ...]) -> None:
    """Three dies in a ring of any order; two chunks of 64 words, and a short one."""
    graphs = []
    for die in range(3):
        index = order.index(die)
        graphs.append([
            task((CollectiveOperation.SET_GROUP, {"group": 3, "members": 3, "index": index,
                                                  "next_die": order[(index + 1) % 3]})),
            task((operation, {"source": at(100), "destination": at(400), "words": 140, "group": 3, "message": 6,
                              "update": UpdateOperation.SGD if operation is not CollectiveOperation.ALL_GATHER else 0,
                              "rate": 0x3F000000}), advance_enable=1, advance=2),
            task(copy(400, 800), **waiting((2, 1)))])
    array = run(loaded(*graphs))
    for die in range(3):
        assert status(array, die) == 2, error(array, die)
        words = floats(array, die, 400, 140)
        for word in range(140):
            owner = order[word // 64]
            if operation is CollectiveOperation.ALL_GATHER:
                wanted = 1000 * owner + 100 + word
            else:
                wanted = 1000 * owner + 400 + word - 0.5 * (3000 + 3 * (100 + word))
                if operation is CollectiveOperation.REDUCE_SCATTER and owner != die:
                    wanted = 1000 * die + 400 + word
            assert words[word] == wanted, (die, word)
        assert floats(array, die, 800, 1) == words[:1]


#: The same product as a convolution: two positions of a grid, a kernel's row of three places each.
CONVOLUTION = (MatrixOperation.CONVOLUTION, {
    **GEMM[1], "grid_rows": 1, "grid_columns": 2, "a_run": 3, "a_runs": 1, "map_rows": 1, "map_columns": 9,
    "window_column_step": 3})
COLLECTIVE = {"source": at(100), "destination": at(400), "words": 64, "group": 0, "message": 0}


def ring(**fields: int) -> tuple[Any, dict[str, Any]]:
    return CollectiveOperation.SET_GROUP, {"group": 0, "members": 2, "index": 1, "next_die": 0, **fields}


SELF = task((CollectiveOperation.SET_GROUP, {"group": 0, "members": 1, "index": 0, "next_die": 0}))


@pytest.mark.parametrize("bad, code, engine", [
    (copy(5, 600, 0), ErrorCode.BAD_OPERAND, Engine.TRANSFER),
    (copy(5, 600, rows=0), ErrorCode.BAD_OPERAND, Engine.TRANSFER),
    (copy(5, 600, planes=0), ErrorCode.BAD_OPERAND, Engine.TRANSFER),
    (copy(5, 600, gather=1, scatter=1), ErrorCode.BAD_OPERAND, Engine.TRANSFER),
    (copy(5, 600, arrival_enable=1, arrival=TINY.counters), ErrorCode.BAD_OPERAND, Engine.TRANSFER),
    (copy(WORDS - 1, 600, 2), ErrorCode.BAD_ADDRESS, Engine.TRANSFER),
    (copy(5, WORDS - 1, 2), ErrorCode.BAD_ADDRESS, Engine.TRANSFER),
    (copy(5, 600, remote=1, destination_die=256), ErrorCode.BAD_DIE, Engine.TRANSFER),
    *((copy(5, 600, remote=1, destination_die=256, **fields), ErrorCode.BAD_OPERAND, Engine.TRANSFER)
      for fields in ({"rows": 0}, {"gather": 1, "scatter": 1}, {"arrival_enable": 1, "arrival": TINY.counters})),
    (copy(5, 600, gather=1, index=at(WORDS)), ErrorCode.BAD_ADDRESS, Engine.TRANSFER),
    ((GEMM[0], {**GEMM[1], "m": 0}), ErrorCode.BAD_OPERAND, Engine.MATRIX),
    ((GEMM[0], {**GEMM[1], "n": 0}), ErrorCode.BAD_OPERAND, Engine.MATRIX),
    ((GEMM[0], {**GEMM[1], "k": 0}), ErrorCode.BAD_OPERAND, Engine.MATRIX),
    ((GEMM[0], {**GEMM[1], "interleave_m_log2": 4}), ErrorCode.BAD_OPERAND, Engine.MATRIX),
    ((GEMM[0], {**GEMM[1], "a": at(WORDS - 5)}), ErrorCode.BAD_ADDRESS, Engine.MATRIX),
    ((GEMM[0], {**GEMM[1], "b": at(WORDS - 11)}), ErrorCode.BAD_ADDRESS, Engine.MATRIX),
    ((GEMM[0], {**GEMM[1], "c": at(WORDS - 8)}), ErrorCode.BAD_ADDRESS, Engine.MATRIX),
    ((MatrixOperation.ROW_STATIONARY, {}), ErrorCode.BAD_OPERATION, Engine.MATRIX),
    *(((CONVOLUTION[0], {**CONVOLUTION[1], name: 0}), ErrorCode.BAD_OPERAND, Engine.MATRIX)
      for name in ("m", "n", "k", "grid_rows", "grid_columns", "a_run", "a_runs", "map_rows", "map_columns")),
    ((CONVOLUTION[0], {**CONVOLUTION[1], "b_run": 2}), ErrorCode.BAD_OPERAND, Engine.MATRIX),
    *(((CONVOLUTION[0], {**CONVOLUTION[1], name: at(WORDS - words + 1)}), ErrorCode.BAD_ADDRESS, Engine.MATRIX)
      for name, words in (("a", 6), ("b", 12), ("c", 9))),
    ((RELU[0], {**RELU[1], "rows": 0}), ErrorCode.BAD_OPERAND, Engine.VECTOR),
    ((RELU[0], {**RELU[1], "columns": 1025}), ErrorCode.BAD_OPERAND, Engine.VECTOR),
    ((RELU[0], {**RELU[1], "load": [{"pointer": at(WORDS), "region": 0}]}), ErrorCode.BAD_ADDRESS, Engine.VECTOR),
    ((CollectiveOperation.ALL_REDUCE, {**COLLECTIVE, "group": 1}), ErrorCode.BAD_OPERAND, Engine.COLLECTIVE),
    ((CollectiveOperation.ALL_REDUCE, {**COLLECTIVE, "words": 0}), ErrorCode.BAD_OPERAND, Engine.COLLECTIVE),
    ((CollectiveOperation.ALL_REDUCE, {**COLLECTIVE, "source": at(102)}), ErrorCode.BAD_OPERAND, Engine.COLLECTIVE),
    ((CollectiveOperation.ALL_REDUCE, {**COLLECTIVE, "destination": at(401)}), ErrorCode.BAD_OPERAND,
     Engine.COLLECTIVE),
    ((CollectiveOperation.ALL_REDUCE, {**COLLECTIVE, "source": at(WORDS - 60)}), ErrorCode.BAD_ADDRESS,
     Engine.COLLECTIVE),
    (ring(members=0), ErrorCode.BAD_OPERAND, Engine.COLLECTIVE),
    (ring(index=2), ErrorCode.BAD_OPERAND, Engine.COLLECTIVE),
    (ring(members=257), ErrorCode.BAD_DIE, Engine.COLLECTIVE),
    (ring(next_die=256), ErrorCode.BAD_DIE, Engine.COLLECTIVE)])
def test_tasks_that_an_engine_refuses(bad: tuple[Any, dict[str, Any]], code: ErrorCode, engine: Engine) -> None:
    array = loaded([SELF, task(copy(5, 700), advance_enable=1, advance=1), task(bad, **waiting((1, 1)))])
    before = array.dies[0].read_memory(0, 700)
    run(array)
    assert error(array) == (code.value, TASKS + 2 * DESCRIPTOR_WORDS, engine.value) and status(array) == 5
    assert array.dies[0].read_memory(0, 700).tolist() == before.tolist() and floats(array, 0, 700, 1) == [5]


@pytest.mark.parametrize("header, code, info", [
    ({"engine": 9}, ErrorCode.BAD_ENGINE, 9), ({"operation": 15}, ErrorCode.BAD_OPERATION, 3),
    ({"advance_enable": 1, "advance": TINY.counters}, ErrorCode.BAD_COUNTER, 3 | TINY.counters << 8),
    ({"remote_enable": 1, "remote_die": 256}, ErrorCode.BAD_DIE, 3),
    (waiting((TINY.counters, 0)), ErrorCode.BAD_COUNTER, 3 | TINY.counters << 8)])
def test_descriptors_that_no_engine_knows(header: dict[str, Any], code: ErrorCode, info: int) -> None:
    """Of such a graph nothing runs."""
    array = run(loaded([task(copy(5, 600)), task(copy(5, 601), **header)]))
    assert error(array) == (code.value, TASKS + DESCRIPTOR_WORDS, info)
    assert floats(array, 0, 600, 2) == [600, 601]


@pytest.mark.parametrize(("operation", "body", "engine"), [
    (CollectiveOperation.SET_ROUTE, {"dies": 1}, Engine.COLLECTIVE),
    *((operation, copy(5, 601)[1], Engine.TRANSFER) for operation in (
        TransferOperation.TRANSFORM, TransferOperation.TRANSFORM_ADD, TransferOperation.ENCODE,
        TransferOperation.DECODE, TransferOperation.PREDICT))])
def test_operations_that_a_die_does_not_have(operation: Any, body: dict[str, Any], engine: Engine) -> None:
    """Refused as its descriptor is read, so that what comes before it does not run either."""
    parameters = preset("ndp-tiny", transforms=(), codes=False, sets_routes=False)
    array = run(loaded([task(copy(5, 600)), task((operation, body))], parameters=parameters))
    assert error(array) == (ErrorCode.BAD_OPERATION.value, TASKS + DESCRIPTOR_WORDS, engine.value)
    assert floats(array, 0, 600, 2) == [600, 601]


@pytest.mark.parametrize("sends", [task(copy(5, 600, remote=1, destination_die=2)),
                                   task(copy(5, 600), remote_enable=1, remote_die=2)])
def test_what_is_for_a_die_that_there_is_not_is_lost(sends: Task) -> None:
    """Register DIES knows the array's dies: then the task is refused. Otherwise its packet finds no route."""
    array = run(loaded([sends], [task(copy(5, 600), **waiting((1, 1)))]))
    assert error(array) == (ErrorCode.NO_ROUTE.value, 0, 0xFF | 2 << 16)
    assert error(array, 1) == (ErrorCode.REMOTE.value, 0, 0xFF)
    array = loaded([sends], [task(copy(5, 600), **waiting((1, 1)))])
    array.dies[0].write_register(Register.DIES, 2)
    assert error(run(array)) == (ErrorCode.BAD_DIE.value, TASKS, Engine.TRANSFER.value)


@pytest.mark.parametrize(("die", "port"), [(2, 0), (1023, 0), (1, TINY.ports)])
def test_routes_to_dies_and_ports_that_do_not_exist(die: int, port: int) -> None:
    array = loaded([task(copy(5, 600))], [task(copy(5, 600))])
    device = array.dies[0]
    device.write_register(Register.DIES, 2)
    device.write_register(regs.ROUTES + 4, TINY.ports - 1)
    assert status(array) == 0 and device.read_register(regs.ROUTES + 4) == TINY.ports - 1
    device.write_register(regs.ROUTES + 4 * die, port)
    assert error(array) == (ErrorCode.BAD_ROUTE.value, 0, 0xFF | die << 16) and status(array) == 4
    assert device.read_register(regs.ROUTES + 4) == TINY.ports - 1


def test_an_engine_that_a_die_does_not_have() -> None:
    array = run(loaded([task(copy(5, 600)), task(RELU)],
                       parameters=preset("ndp-tiny", engines=frozenset({Engine.TRANSFER, Engine.MATRIX}))))
    assert error(array) == (ErrorCode.BAD_ENGINE.value, TASKS + DESCRIPTOR_WORDS, Engine.VECTOR.value)


def test_the_largest_numbers_of_counters_and_words_are_there() -> None:
    last = TINY.counters - 1
    array = run(loaded([task(copy(5, WORDS - 1), advance_enable=1, advance=last),
                        task(copy(5, 601), **waiting((last, 1)))]))
    assert status(array) == 2 and floats(array, 0, WORDS - 1, 1) == floats(array, 0, 601, 1) == [5]


def test_what_a_task_does_not_ask_for_need_not_exist() -> None:
    """Counters and a die that it names beside waits and advances that are not enabled."""
    names = {"wait_counter": [255] * 4, "advance": 255, "remote_counter": 255, "remote_die": 255}
    array = run(loaded([task(copy(5, 600), **names), task(copy(6, 601, arrival=255), **names)]))
    assert status(array) == 2 and floats(array, 0, 600, 2) == [5, 6]


def test_a_graph_without_an_end_leaves_the_memory() -> None:
    array = loaded([task(copy(5, 600), last=0)])
    array.dies[0].write_register(Register.TASK_BASE, WORDS - DESCRIPTOR_WORDS)
    descriptor = array.dies[0].read_memory(TASKS, DESCRIPTOR_WORDS)
    array.dies[0].write_memory(WORDS - DESCRIPTOR_WORDS, descriptor)
    assert error(run(array)) == (ErrorCode.BAD_ADDRESS.value, WORDS, 0xFF)


def test_an_error_stays_and_is_told() -> None:
    array = run(loaded([task(copy(5, 600, 0))], [task(copy(5, 600), **waiting((1, 1)))]))
    assert error(array) == (ErrorCode.BAD_OPERAND.value, TASKS, Engine.TRANSFER.value)
    assert error(array, 1) == (ErrorCode.REMOTE.value, 0, 0xFF) and status(array, 1) == 5
    array.dies[0].fail(ErrorCode.TIMEOUT, 7, 0)
    assert error(array) == (ErrorCode.BAD_OPERAND.value, TASKS, Engine.TRANSFER.value)


def test_a_tile_that_does_not_fit_is_the_error_of_the_other_die() -> None:
    array = run(loaded([task(copy(5, WORDS - 1, 2, remote=1, destination_die=1))],
                       [task(copy(5, 600), **waiting((1, 1)))]))
    assert error(array, 1) == (ErrorCode.BAD_PACKET.value, 0, Engine.TRANSFER.value)
    assert error(array)[0] == ErrorCode.REMOTE.value


def test_registers() -> None:
    device = loaded([task(copy(5, 600))]).dies[0]
    assert device.read_register(Register.ID) == 0x504C494E
    assert device.read_register(Register.VERSION) == regs.ISA_VERSION
    device.write_register(regs.COUNTERS + 4 * 63, 8)
    device.write_register(regs.COUNTERS, 7)
    device.write_register(regs.COUNTER_BASES, 9)
    assert device.counters == [7, *[0] * 62, 8] and device.read_register(regs.COUNTERS) == 7
    assert device.read_register(regs.COUNTERS + 4 * 63) == 8
    assert device.read_register(regs.COUNTER_BASES) == 9
    assert [device.read_register(regs.COUNTERS + 4 * beside) for beside in (-1, 64, 79)] == [0, 0, 0]
    device.write_register(Register.DIE, 4)
    assert device.read_register(Register.DIE) == 4 and device.read_register(Register.CYCLE) == 0
    assert device.read_register(Register.WATCHDOG) == 100_000_000
    assert device.read_register(Register.MEMORY_WORDS) == 0xFFFFFFFF
    device.write_register(Register.CONTROL, 6)
    assert device.read_register(Register.STATUS) == 0
    device.write_register(Register.CONTROL, 1)
    assert device.read_register(Register.STATUS) == 1


def test_registers_refuse_what_they_cannot_hold() -> None:
    device = loaded([task(copy(5, 600))]).dies[0]
    with pytest.raises(ValueError, match=r"DIE must be from 0 to 255 \(8 bits\), not 256"):
        device.write_register(Register.DIE, 256)


def test_counters_of_remote_advances_exist() -> None:
    array = run(loaded([task(copy(5, 600), remote_enable=1, remote_die=1, remote_counter=64)], [task(copy(5, 600))]))
    assert error(array)[0] == ErrorCode.BAD_COUNTER.value


class _Lost:
    """A transport whose other process is gone."""

    processes, own = ((0, 2, 3), (1, 4)), 0

    def send(self, message: Any) -> None:
        raise PeerLostError([4, 1])

    def receive(self, seconds: float) -> None:
        if seconds:
            raise PeerLostError([4, 1])


def test_a_die_whose_peer_is_gone_says_for_what_it_waited() -> None:
    array = GoldenArray(TINY, 5, WORDS, transport=_Lost(), patience_seconds=1.5)
    program(array, 0, [task(copy(5, 600), **waiting((9, 1)))])
    array.dies[0].write_register(Register.CONTROL, ControlBits.START)
    with pytest.raises(PeerLostError, match="dies 1, 4 lost: their process has ended"):
        array.wait(0)
    assert error(array) == (ErrorCode.TIMEOUT.value, TASKS, Engine.TRANSFER.value | 9 << 8)
    assert str(PeerLostError([7])) == "die 7 lost: their process has ended"
    assert str(PeerLostError([3, 1], "no memory")) == "dies 1, 3 lost: their process has ended with an error: no memory"


class _Silent:
    """A transport to dies that never send; keeps what it was asked and given."""

    processes, own = ((0,), (1,)), 1

    def __init__(self) -> None:
        self.patience: list[float] = []
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def receive(self, seconds: float) -> None:
        self.patience.append(seconds)


def test_dies_listen_to_others_for_as_long_as_they_have_nothing_to_do() -> None:
    for waits, error_code, patience in (({}, 0, []), (waiting((1, 1)), ErrorCode.TIMEOUT.value, [2.5])):
        transport = _Silent()
        array = GoldenArray(TINY, 2, WORDS, transport=transport, patience_seconds=2.5)
        program(array, 0, [task(copy(5, 600)), task(copy(5, 601), **waits)])
        run(array)
        assert error(array)[0] == error_code
        assert [seconds for seconds in transport.patience if seconds] == patience
        assert [(type(message).__name__, message.source, message.destination) for message in transport.sent] == (
            [("Failure", 1, 0)] if error_code else [])


def test_a_stop_throws_all_away_but_memory_and_errors() -> None:
    """Counters, their bases, the group table, what other dies have sent; only clearing the error ends it."""
    tile = {"remote": 1, "destination_die": 1, "arrival_enable": 1, "arrival": 13}
    array = loaded([task(copy(5, 600, 2, **tile), remote_enable=1, remote_die=1, remote_counter=3)],
                   [task((CollectiveOperation.SET_GROUP, {"group": 2, "members": 1, "index": 0, "next_die": 1}),
                         record=1),
                    task(copy(6, 701), advance_enable=1, advance=5)])
    run(array)
    device = array.dies[1]
    device.write_register(regs.COUNTER_BASES + 4 * 7, 9)
    assert (device.counters[13], device.counters[5], device.counters[3], device.groups[2].members) == (1, 1, 1, 1)
    assert device.read_register(Register.RECORD_COUNT) == 1 and status(array, 1) == 2
    device.write_register(Register.CONTROL, ControlBits.STOP)
    assert device.counters == [0] * TINY.counters and not device.groups
    assert device.read_register(regs.COUNTER_BASES + 4 * 7) == device.read_register(Register.RECORD_COUNT) == 0
    assert device.read_register(Register.TASK_BASE) == TASKS
    device.write_memory(600, np.zeros(2, np.uint32))
    run(array)
    assert device.counters == [0] * TINY.counters and floats(array, 1, 600, 2) == [0, 0], "what comes is thrown away"
    assert status(array) == 2
    device.write_register(Register.CONTROL, ControlBits.CLEAR_ERROR)
    run(array)
    assert (status(array, 1), device.counters[13], device.counters[5]) == (2, 1, 1)
    assert floats(array, 1, 600, 2) == [5, 6]
    device.fail(ErrorCode.TIMEOUT, 7, 0)
    device.write_register(Register.CONTROL, ControlBits.STOP)
    assert error(array, 1)[:2] == (ErrorCode.TIMEOUT.value, 7)


def test_a_stop_ends_what_waits_and_what_has_failed() -> None:
    """A ring's member, and the chunks that have come for it, are gone; so is an add that nobody has needed yet."""
    total = np.array([[7]], np.float32).view(np.uint32)
    for breaks in (False, True):
        array = loaded([task(ring(index=0, next_die=1)),
                        task((CollectiveOperation.ALL_REDUCE, COLLECTIVE))], [task(copy(5, 600))])
        device = array.dies[0]
        device.write_register(Register.CONTROL, ControlBits.START)
        array._advance()
        assert status(array) == Status.BUSY and device.members
        device.deliver(RingChunks(1, 0, 0, 5, np.arange(64, dtype=np.uint32)))
        device.deliver(Tile(1, 0, Rows(np.array([600]), total, True), None))
        if breaks:
            device.fail(ErrorCode.REMOTE, 0, 0xFF)
            assert status(array) == Status.BUSY | Status.ERROR
        device.write_register(Register.CONTROL, ControlBits.STOP)
        assert status(array) == (Status.STOPPED | Status.ERROR if breaks else Status.STOPPED)
        assert not (device.queues or device.chunks or device.members or device.groups or device.arrivals.held)
        device.write_register(Register.CONTROL, ControlBits.CLEAR_ERROR)
        assert (status(array), floats(array, 0, 600, 1)) == (0, [600])
    array = run(loaded([task(copy(5, 600))]))
    assert status(array) == Status.DONE
    array.dies[0].write_register(Register.CONTROL, ControlBits.STOP)
    assert status(array) == Status.STOPPED


@pytest.mark.parametrize("state", ["busy", "failed", "stopped"])
def test_a_start_is_for_dies_that_are_idle_and_whole(state: str) -> None:
    array = loaded([task(copy(5, 600), **waiting((4, 1)))])
    device = array.dies[0]
    if state == "busy":
        device.write_register(Register.CONTROL, ControlBits.START)
        array._advance()
    elif state == "failed":
        device.fail(ErrorCode.REMOTE, 0, 1)
    else:
        device.write_register(Register.CONTROL, ControlBits.STOP)
    before, queues = status(array), device.queues
    assert before == {"busy": Status.BUSY, "failed": Status.ERROR, "stopped": Status.STOPPED}[state]
    device.write_register(Register.CONTROL, ControlBits.START)
    assert status(array) == before and device.queues is queues


def test_a_second_failure_is_told_as_the_first_one_was() -> None:
    array = loaded([task(copy(5, 600))], [task(copy(5, 600))])
    for _ in range(2):
        array.dies[0].fail(ErrorCode.TIMEOUT, 7, 0)
        array.wait(0)
        assert error(array, 1) == (ErrorCode.REMOTE.value, 0, 0xFF)
        for device in array.dies:
            device.write_register(Register.CONTROL, ControlBits.CLEAR_ERROR)
        array.wait(0)
        assert error(array, 0) == error(array, 1) == (0, 0, 0)


ROUTED = {"first_die": 250, "dies": 3, "traffic": Traffic.TILES, "ports": [1, 0, 1] + [0] * 17}


@pytest.mark.parametrize(("fields", "code"), [
    ({}, None), ({"dies": 6}, None), ({"dies": 7}, ErrorCode.BAD_ROUTE), ({"dies": 0}, ErrorCode.BAD_OPERAND),
    ({"dies": 1}, None),
    ({"dies": ROUTES_SET, "first_die": 0}, None), ({"dies": ROUTES_SET + 1, "first_die": 0}, ErrorCode.BAD_OPERAND),
    ({"ports": [1, 0, 2] + [0] * 17}, ErrorCode.BAD_ROUTE), ({"ports": [1, 0, 1] + [9] * 17}, None),
    ({"ports": [255, 0, 0] + [0] * 17}, ErrorCode.BAD_ROUTE), ({"traffic": 3}, ErrorCode.BAD_OPERAND)])
def test_routes_that_tasks_set_are_checked(fields: dict[str, Any], code: ErrorCode | None) -> None:
    """Of a die of 256, with two ports; ports behind the last destination are none of its."""
    parameters = preset("ndp-tiny-routes")
    assert parameters.ports == 2
    array = run(loaded([task((CollectiveOperation.SET_ROUTE, {**ROUTED, **fields}))], parameters=parameters))
    if code is None:
        assert status(array) == 2
    else:
        assert error(array) == (code.value, TASKS, Engine.COLLECTIVE.value)


def test_a_task_that_cannot_run_says_its_code() -> None:
    error = DescriptorError(ErrorCode.BAD_OPERAND, 3)
    assert (str(error), error.code, error.counter) == ("BAD_OPERAND", ErrorCode.BAD_OPERAND, 3)

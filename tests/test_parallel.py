"""Processes: one alone changes nothing; of several, sums, orders and failures are shared."""

from typing import Any

import pytest
import torch
from torch import Tensor

from scob.errors import UserError
from scob.parallel import (
    OtherProcessFailed,
    Processes,
    choose_device,
    code_of,
    device_name,
    is_broken_connection,
    lost_peer,
    start,
    unused_cuda,
)


class TwoProcesses:
    """What `accelerate` would do for process 0 of two, when process 1 holds `other`."""

    num_processes, process_index, device = 2, 0, torch.device("cpu")

    def __init__(self, other: Tensor) -> None:
        self.other = other

    def reduce(self, value: Tensor, reduction: str) -> Tensor:
        assert reduction == "sum"
        return value + self.other

    def gather(self, rows: Tensor) -> Tensor:
        return torch.cat((rows, self.other))


def two(other: Any) -> Processes:
    return Processes(TwoProcesses(torch.as_tensor(other)))


def test_one_process_is_the_first_and_changes_nothing() -> None:
    alone, value = Processes(), torch.tensor([1.0, 2.0], requires_grad=True)
    assert alone.first and alone.count == 1
    assert alone.collect(value) is value and alone.gather(value) is value and alone.concatenate(value) is value
    assert torch.equal(alone.total(value), value) and not alone.total(value).requires_grad
    alone.check_equal({"weights": value})
    alone.wait()


def test_a_collected_sum_has_the_gradient_of_the_own_part() -> None:
    value = torch.tensor(2.0, requires_grad=True)
    total = two(5.0).collect(value)
    assert total.item() == 7.0
    total.square().backward()
    assert value.grad == 14.0


def test_gathered_rows_are_in_the_order_of_a_single_process() -> None:
    rows = two([[1], [3], [5]]).gather(torch.tensor([[0], [2], [4]]))
    assert rows.flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_gradients_are_summed_in_one_message() -> None:
    first, second, without = torch.zeros(2), torch.zeros(1, 1), torch.zeros(3)
    first.grad, second.grad = torch.tensor([1.0, 2.0]), torch.tensor([[3.0]])
    two([10.0, 20.0, 30.0]).sum_gradients([first, without, second])
    assert first.grad.tolist() == [11.0, 22.0] and second.grad.tolist() == [[33.0]]
    assert without.grad is None


def test_a_failure_elsewhere_stops_this_process_and_its_own_is_raised() -> None:
    with pytest.raises(OtherProcessFailed) as stopped, two(1.0).together():
        pass
    assert stopped.value.code == 2
    with pytest.raises(UserError, match="mine"), two(0.0).together():
        raise UserError("mine")
    with two(0.0).together():
        pass


def test_tensors_that_differ_are_named() -> None:
    equal, different = torch.ones(3), torch.zeros(3)
    codes = [[code_of(equal), code_of(torch.ones(4))]]
    with pytest.raises(RuntimeError, match="disagree on weights"):
        two(codes).check_equal({"estimates": equal, "weights": different})
    two([[code_of(equal)]]).check_equal({"estimates": equal})


def test_the_code_of_a_tensor_is_that_of_its_bytes() -> None:
    columns = torch.arange(6).view(2, 3)
    assert code_of(columns.T) == code_of(columns.T.contiguous()) != code_of(columns)
    assert 0 <= code_of(torch.empty(0)) < 2**63


def test_devices_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match="no device 'gpu': use auto, cpu"):
        choose_device("gpu")


@pytest.mark.parametrize(("name", "kind"), [("cuda", "CUDA"), ("mps", "Metal")])
def test_a_device_that_is_not_here_is_refused(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match=f"finds no {kind} device here; use --device cpu"):
        choose_device(name)
    assert choose_device("auto") == torch.device("cpu")


def test_cuda_that_nothing_uses_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert unused_cuda() is None
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert "built for CUDA 12.8, but finds no GPU" in str(unused_cuda())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert unused_cuda() is None


def test_a_gpu_is_named_by_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    assert device_name(torch.device("cuda:1")) == "cuda:1 (Tesla T4)"
    assert device_name(torch.device("cpu")) == "cpu"


@pytest.mark.parametrize(("name", "cpu", "device"), [("cpu", True, "cpu"), ("auto", False, "meta")])
def test_starting_alone_uses_the_named_device(
    name: str, cpu: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alone:
        num_processes, process_index, device = 1, 0, torch.device("meta")

        def __init__(self, cpu: bool, kwargs_handlers: list[Any]) -> None:
            self.cpu, self.seconds = cpu, kwargs_handlers[0].timeout.total_seconds()

    monkeypatch.setattr("accelerate.Accelerator", Alone)
    processes = start(name)
    assert processes.accelerator.cpu == cpu
    assert processes.accelerator.seconds == 600
    assert processes.device == torch.device(device)


def test_a_group_of_another_size_than_the_launcher_says_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone:
        num_processes, process_index, device = 1, 0, torch.device("cpu")

        def __init__(self, **options: Any) -> None:
            pass

    monkeypatch.setattr("accelerate.Accelerator", Alone)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UserError, match=r"process 1 of 2, but torch\.distributed says 0 of 1"):
        start("cpu")


def test_a_lost_peer_is_told_from_other_errors() -> None:
    assert is_broken_connection(RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer"))
    assert is_broken_connection(RuntimeError("Timed out waiting 600000ms for recv operation to complete"))
    assert not is_broken_connection(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert "did not answer for 600 seconds" in lost_peer(2)

"""Progress bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.feeds import recording
from watch.bars import Bar, parse_bar


@pytest.mark.parametrize(
    ("text", "bar"),
    [
        (
            "\rLoading safetensors checkpoint shards:   0% Completed | 0/64 [00:00<?, ?it/s]",
            Bar("Loading safetensors checkpoint shards", 0, 64, "it", 0, None, None, 0),
        ),
        (
            "\rLoading safetensors checkpoint shards:  38% Completed | 24/64 [1:03:45<06:16,  9.40s/it]",
            Bar("Loading safetensors checkpoint shards", 24, 64, "it", 3825, 376, 1 / 9.4, 38),
        ),
        (
            "Loading safetensors using InstantTensor loader:   1% Completed | 12.3G/1.03T [00:10<14:03, 1.5GB/s]",
            Bar(
                "Loading safetensors using InstantTensor loader",
                12.3 * 2**30,
                1.03 * 2**40,
                "bytes",
                10,
                843,
                1.5 * 2**30,
                1,
            ),
        ),
        (
            "\r[AutoTuner]: Tuning flashinfer::trtllm_fp4:  23%|██         | 5/22 [03:35<12:11, 43.0s/profile]",
            Bar("[AutoTuner]: Tuning flashinfer::trtllm_fp4", 5, 22, "profile", 215, 731, 1 / 43.0, 23),
        ),
        (
            "Capturing batches (bs=1 avail_mem=19.67 GB): 100%|#| 52/52 [16:00<00:00, 18.46s/it]",
            Bar("Capturing batches (bs=1 avail_mem=19.67 GB)", 52, 52, "it", 960, 0, 1 / 18.46, 100),
        ),
        (
            "\rJIT kernel warmup (12 compile keys):  50%|█████     | 6/12 [00:05<00:05,  1.10kernel/s]",
            Bar("JIT kernel warmup (12 compile keys)", 6, 12, "kernel", 5, 5, 1.1, 50),
        ),
        (
            "DeepGEMM warmup: 100%|########| 1762/1762 [00:00<00:00, 3.14kit/s]",
            Bar("DeepGEMM warmup", 1762, 1762, "it", 0, 0, 3140.0, 100),
        ),
        (
            "Prefetching checkpoint files: 50% (4/8)",
            Bar("Prefetching checkpoint files", 4, 8, "it", None, None, None, 50),
        ),
        (" 17%|█▋        | 1/6 [00:00<00:03,  1.40it/s]", Bar("", 1, 6, "it", 0, 3, 1.4, 17)),
    ],
)
def test_every_kind_of_bar_is_read(text: str, bar: Bar) -> None:
    found = parse_bar(text)
    assert found is not None
    assert found.rate == pytest.approx(bar.rate)
    assert (found.label, found.done, found.total, found.unit) == (bar.label, bar.done, bar.total, bar.unit)
    assert (found.elapsed, found.left, found.percent) == (bar.elapsed, bar.left, bar.percent)


def test_of_updates_joined_by_carriage_returns_the_last_counts() -> None:
    first = "Capturing CUDA graphs:   0%|          | 0/67 [00:00<?, ?it/s]"
    last = "Capturing CUDA graphs:  45%|████▌     | 30/67 [00:05<00:06,  5.42it/s]"
    bar = parse_bar(f"(Worker_TP0 pid=5) \r{first}\r{last}\r")
    assert bar is not None
    assert bar.done == 30


@pytest.mark.parametrize(
    "text", ["", "100%", "Pass 50% of it | 3/4", "model: 5% better | 1/2", "GPU KV cache usage: 12.5%, x 1/2 [a<b]"]
)
def test_what_is_no_bar_is_none(text: str) -> None:
    assert parse_bar(text) is None


def test_a_real_load_counts_every_shard() -> None:
    _, lines = recording("gpu-h200x2/b2-baseline-worker-killed")
    bars = [bar for line in lines if "checkpoint shards" in line.text and (bar := parse_bar(line.text)) is not None]
    assert [bar.done for bar in bars] == [*range(41), 40]
    assert {bar.total for bar in bars} == {40}


@given(st.text(max_size=400))
def test_any_text_is_taken(text: str) -> None:
    parse_bar(text)


_FIGURES = st.integers(0, 10**9)


@given(_FIGURES, st.integers(1, 10**9), st.integers(0, 10**6), st.text("#█ ▌", max_size=10))
def test_the_figures_of_a_bar_come_back(done: int, total: int, seconds: int, drawn: str) -> None:
    hours, rest = divmod(seconds, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60:02}:{rest % 60:02}"
    bar = parse_bar(f"a bar:  50%|{drawn}| {done}/{total} [{clock}<?, ?it/s]")
    assert bar is not None
    assert (bar.done, bar.total, bar.elapsed, bar.left) == (done, total, seconds, None)

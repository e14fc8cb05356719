// SPDX-License-Identifier: Apache-2.0
// Converts records of the BPF scan to samples.
#pragma once

#include "bpf/abi/task.h"
#include "kernel/rss_calibration.h"
#include "model/process.h"

namespace forestall::sources {

// `counting`: which of the task's counters is used as its memory. `summed` requires a scan that
// summed.
[[nodiscard]] ProcessSample to_sample(const abi_task& task, kernel::RssCounting counting);

}  // namespace forestall::sources

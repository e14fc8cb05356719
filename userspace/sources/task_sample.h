// SPDX-License-Identifier: Apache-2.0
// Records of the BPF scan as samples.
#pragma once

#include "bpf/abi/task.h"
#include "kernel/rss_calibration.h"
#include "model/process.h"

namespace forestall::sources {

// `counting`: which of its counters are the memory. `summed` needs a scan that summed.
[[nodiscard]] ProcessSample to_sample(const abi_task& task, kernel::RssCounting counting);

}  // namespace forestall::sources

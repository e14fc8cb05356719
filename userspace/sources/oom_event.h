// SPDX-License-Identifier: Apache-2.0
// Converts an OOM kill event of the BPF programs to an event.
#pragma once

#include "bpf/abi/oom_kill.h"
#include "model/oom_kill.h"

namespace forestall::sources {

// BPF reports no paths: they stay empty.
[[nodiscard]] OomKillEvent to_event(const abi_oom_kill& kill);

}  // namespace forestall::sources

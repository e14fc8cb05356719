// SPDX-License-Identifier: Apache-2.0
// Converts an OOM kill event of the BPF programs to a sighting.
#pragma once

#include "bpf/abi/oom_kill.h"
#include "model/oom_kill.h"

namespace forestall::sources {

// BPF reports no paths: they stay empty.
[[nodiscard]] OomKillSighting to_sighting(const abi_oom_kill& kill);

}  // namespace forestall::sources

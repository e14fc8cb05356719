// SPDX-License-Identifier: Apache-2.0
// What the BPF programs saw of an OOM kill, as a sighting.
#pragma once

#include "bpf/abi/oom_kill.h"
#include "model/oom_kill.h"

namespace forestall::sources {

// Paths are not among what BPF tells: they stay empty.
[[nodiscard]] OomKillSighting to_sighting(const abi_oom_kill& kill);

}  // namespace forestall::sources

// SPDX-License-Identifier: Apache-2.0
// The mark behind the code that stays in memory: the linker is told to place it right after the
// layers that see, decide and act (cli/CMakeLists.txt). An archive of its own, for that.
#include "kernel/residency.h"

extern "C" void forestall_resident_end() {}

// SPDX-License-Identifier: Apache-2.0
// The mark after the code that stays in memory: the linker places it right after the layers that
// read, decide and act (cli/CMakeLists.txt). It needs a separate archive for that.
#include "kernel/residency.h"

extern "C" void forestall_resident_end() {}

// SPDX-License-Identifier: Apache-2.0
// The parts of this process that stay in memory.
//
// The start needs much memory: the configuration, the kernel's type information and the verifier's
// log take 12 MiB of heap and most of the code of 25 libraries, which the agent never uses again.
// At a crossing, on the other hand, no page of the code that runs may have to come from a busy
// disk. So the agent first gives the memory of the start back, and then makes the code of the
// layers that read, decide and act resident as a whole. The warm-up touches what they use of
// libraries, and a lock keeps what was touched (MCL_ONFAULT).
#pragma once

namespace forestall::kernel {

// Returns free heap to the kernel and unmaps the pages of code and constants of all loaded files;
// their next use reads them from the page cache. Call before lock_memory(), because locked pages
// stay. Any thread; other threads may run.
void give_back_start_up_memory();

// Makes the agent's own code resident, up to forestall_resident_end(), and its constants and
// variables. A kernel before 5.14 lacks the call; there pages are loaded on demand.
void keep_own_code_resident();

// Keeps a reserve of free heap in memory, so that an ordinary reaction to a crossing needs no page
// from a kernel that is short of pages. Uses the heap of the calling thread, which must be the
// loop's.
void keep_heap_reserve();

// Does nothing: its address in the executable marks the end of the code that
// keep_own_code_resident() keeps.
extern "C" void forestall_resident_end();

}  // namespace forestall::kernel

// SPDX-License-Identifier: Apache-2.0
// What of this process stays in memory.
//
// The agent starts big and lives small: reading the configuration, the kernel's type information
// and the verifier's attention take 12 MiB of heap and most of the code of 25 libraries, none of
// which is used again. At a crossing the opposite counts: no page of what is about to run may have
// to come from a disk that is busy just then. So the start is given back first, then the code of
// the layers that see, decide and act is made resident as a whole, and what they use of libraries
// is touched by the warm-up, under a lock that keeps what was touched (MCL_ONFAULT).
#pragma once

namespace forestall::kernel {

// Gives free heap back to the kernel, and unmaps the pages of code and constants of all loaded
// files, which come back from the page cache at the first use. Call before lock_memory(): what is
// locked is not given back. Any thread; other threads may run.
void give_back_start_up_memory();

// Makes the agent's own code resident, from its start to where the linker put resident_end(), and
// its constants and variables. Where the kernel lacks the call (before 5.14), pages come on demand,
// as they would without this.
void keep_own_code_resident();

// Keeps this much free heap in memory, so that ordinary answers to a crossing take no page
// from a kernel that is looking for one. The calling thread's heap, which must be the loop's.
void keep_heap_reserve();

// Does nothing: its place in the executable ends what keep_own_code_resident() keeps.
extern "C" void forestall_resident_end();

}  // namespace forestall::kernel

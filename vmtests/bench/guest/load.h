// SPDX-License-Identifier: Apache-2.0
// A pod's use of memory and CPU in the bench. Steady memory is allocated before the pod is ready;
// everything else begins at "go", for all pods at once.
#pragma once

#include <string>
#include <vector>

namespace forestall::bench {

// A pod's work, by word:
//   hold SIZE [PROCS]           keeps SIZE, spread over PROCS processes
//   halves SIZE FILE            keeps SIZE; from go on touches its first half each second, and
//                               writes what that took to FILE
//   leak RATE [MOST]            from go on RATE bytes a second, up to MOST
//   burst SIZE [PROCS]          at go, as fast as the machine can
//   cache FILE                  from go on reads FILE over and over
//   busy PROCS                  from go on spins on PROCS processes
//   forks SIZE PERIOD_MS MOST   at go a process of SIZE that forks once each PERIOD_MS, as all
//                               its children do, until there are MOST
//   probe FILE                  wakes every 10 ms, touches memory and a file, notes its delays
struct Work {
  std::string kind;
  std::vector<std::string> arguments;
};

// Where the pods wait for "go": a process that opens it for writing releases them.
constexpr const char* kGoFifo = "/run/bench/go";

// Does the work until it is killed; `ready_fd` gets one byte from each process whose steady memory
// is allocated, and is then closed.
[[noreturn]] void perform(const Work& work, int ready_fd);

}  // namespace forestall::bench

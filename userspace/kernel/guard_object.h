// SPDX-License-Identifier: Apache-2.0
// Opens and loads the guard's BPF object.
#pragma once

#include "bpf/abi/guard.h"
// Uses the types above.
#include <forestall_guard.skel.h>

#include <memory>
#include <string>

#include "kernel/bpf_run.h"
#include "kernel/guard_succession.h"
#include "kernel/relocation_types.h"

namespace forestall::kernel {

using GuardSkeleton = std::unique_ptr<forestall_guard, BpfDeleter<&forestall_guard::destroy>>;

struct LoadedGuardObject {
  GuardSkeleton skeleton;
  std::string refusal;  // set if there is no skeleton
  int code = 0;
};

[[nodiscard]] LoadedGuardObject load_guard_object(const RelocationTypes& types,
                                                  const GuardSuccession& succession,
                                                  bool charge_hook);

}  // namespace forestall::kernel

// SPDX-License-Identifier: Apache-2.0
#include "model/process.h"

namespace forestall {

std::string_view to_string(Unkillable reason) {
  switch (reason) {
    case Unkillable::none: return "none";
    case Unkillable::init: return "init";
    case Unkillable::kernel_thread: return "kernel-thread";
    case Unkillable::no_memory: return "no-memory";
    case Unkillable::adjusted: return "adjusted";
    case Unkillable::reaped: return "reaped";
    case Unkillable::in_vfork: return "in-vfork";
  }
  return "";
}

}  // namespace forestall

// SPDX-License-Identifier: Apache-2.0
#include "model/crossing.h"

namespace forestall {

std::string_view to_string(CrossingSeen seen) {
  switch (seen) {
    case CrossingSeen::reading: return "reading";
    case CrossingSeen::kernel: return "kernel";
    case CrossingSeen::charge: return "charge";
  }
  return "";
}

}  // namespace forestall

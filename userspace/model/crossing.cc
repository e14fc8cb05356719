// SPDX-License-Identifier: Apache-2.0
#include "model/crossing.h"

namespace forestall {

std::string_view to_string(CrossingOrigin seen) {
  switch (seen) {
    case CrossingOrigin::reading: return "reading";
    case CrossingOrigin::kernel: return "kernel";
    case CrossingOrigin::charge: return "charge";
  }
  return "";
}

}  // namespace forestall

// SPDX-License-Identifier: Apache-2.0
// Swap on a RAM disk for the time of a case: only inside a VM, where /dev/zram0 is nobody else's.
#pragma once

#include "base/bytes.h"

namespace forestall::test {

class ZramSwap {
 public:
  // Throws when there is no zram, or swap cannot be turned on.
  explicit ZramSwap(Bytes size);
  ZramSwap(const ZramSwap&) = delete;
  ZramSwap& operator=(const ZramSwap&) = delete;
  ~ZramSwap();
};

}  // namespace forestall::test

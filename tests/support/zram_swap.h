// SPDX-License-Identifier: Apache-2.0
// Swap on a RAM disk for one case. Only inside a VM, where nothing else uses /dev/zram0.
#pragma once

#include "base/bytes.h"

namespace forestall::test {

class ZramSwap {
 public:
  // Throws if there is no zram, or if swap cannot be enabled.
  explicit ZramSwap(Bytes size);
  ZramSwap(const ZramSwap&) = delete;
  ZramSwap& operator=(const ZramSwap&) = delete;
  ~ZramSwap();
};

}  // namespace forestall::test

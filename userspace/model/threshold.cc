// SPDX-License-Identifier: Apache-2.0
#include "model/threshold.h"

namespace forestall {

Bytes Limit::of(Bytes capacity) const {
  if (quantity) return *quantity;
  const double share = static_cast<double>(*fraction);
  return {static_cast<std::int64_t>(static_cast<double>(capacity.count) * share)};
}

}  // namespace forestall

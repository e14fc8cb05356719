// SPDX-License-Identifier: Apache-2.0
// Which processes have points, and their value in user space. The sum itself is in model/process.h,
// which the sources can include too.
#include "policy/badness.h"

#include <algorithm>

namespace forestall::policy {

std::optional<Pages> badness(const ProcessSample& process, Pages total_pages) {
  if (process.unkillable != Unkillable::none) return std::nullopt;
  // `unkillable` covers this too, but only if the scan distinguishes the reasons.
  if (process.oom_score_adj == kOomScoreAdjMin) return std::nullopt;
  return process.points(total_pages);
}

std::int64_t oom_score(std::optional<Pages> points, Pages total_pages) {
  if (!points) return 0;
  // The kernel divides by RAM + swap, which is never 0; an unknown total must not trap.
  return (1000 + *points * 1000 / std::max(total_pages, Pages{1})) * 2 / 3;
}

}  // namespace forestall::policy

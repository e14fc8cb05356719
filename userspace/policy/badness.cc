// SPDX-License-Identifier: Apache-2.0
// Who has points, and what user space is shown of them. The sum itself stands in model/process.h,
// where the sources can reach it as well.
#include "policy/badness.h"

#include <algorithm>

namespace forestall::policy {

std::optional<Pages> badness(const ProcessSample& process, Pages total_pages) {
  if (process.unkillable != Unkillable::none) return std::nullopt;
  // Said by `unkillable` as well where the scan tells the reasons apart.
  if (process.oom_score_adj == kOomScoreAdjMin) return std::nullopt;
  return process.points(total_pages);
}

std::int64_t oom_score(std::optional<Pages> points, Pages total_pages) {
  if (!points) return 0;
  // The kernel divides by RAM + swap, which is never 0; a total that is not known must not trap.
  return (1000 + *points * 1000 / std::max(total_pages, Pages{1})) * 2 / 3;
}

}  // namespace forestall::policy

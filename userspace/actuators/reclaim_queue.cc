// SPDX-License-Identifier: Apache-2.0
#include "actuators/reclaim_queue.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <tuple>

namespace forestall::actuators {
namespace {

// Later ones are not reported: the loop takes them at each evaluation.
constexpr std::size_t kDroppedMax = 4096;

}  // namespace

void ReclaimQueue::drop(RuleReclaim reclaim) {
  if (reclaim.proactive && dropped_.size() < kDroppedMax) dropped_.push_back(std::move(reclaim));
}

template <typename Condition>
void ReclaimQueue::drop_if(Condition condition) {
  std::erase_if(waiting_, [&](RuleReclaim& each) {
    if (!condition(each)) return false;
    drop(std::move(each));
    return true;
  });
}

void ReclaimQueue::add(std::vector<RuleReclaim> wanted) {
  std::set<std::pair<std::string, std::string>> replaced;  // without a path: of all cgroups
  for (const RuleReclaim& each : wanted) {
    replaced.emplace(each.ruleset, each.proactive ? each.path : "");
  }
  drop_if([&](const RuleReclaim& each) {
    return replaced.contains({each.ruleset, each.proactive ? each.path : ""});
  });
  for (RuleReclaim& each : wanted) {
    if (each.cgroup == under_way_) {
      drop(std::move(each));
    } else {
      waiting_.push_back(std::move(each));
    }
  }
}

void ReclaimQueue::clear() {
  drop_if([](const RuleReclaim& /*each*/) { return true; });
}

std::optional<RuleReclaim> ReclaimQueue::take(MonotonicTime now, bool may_be_proactive) {
  drop_if([&](const RuleReclaim& each) { return each.until <= now; });
  const auto found = next(may_be_proactive);
  if (found == waiting_.end()) return std::nullopt;
  RuleReclaim taken = std::move(*found);
  waiting_.erase(found);
  under_way_ = taken.cgroup;
  if (taken.proactive) served_ = {taken.ruleset, taken.path};
  return taken;
}

ReclaimQueue::Reclaims::iterator ReclaimQueue::next(bool may_be_proactive) {
  const auto other = std::ranges::find(waiting_, false, &RuleReclaim::proactive);
  if (other != waiting_.end() || !may_be_proactive) return other;
  return std::ranges::min_element(waiting_, {}, [&](const RuleReclaim& each) {
    const bool is_after =
        std::tie(each.ruleset, each.path) > std::tie(served_.first, served_.second);
    return std::tuple(!is_after, std::string_view(each.ruleset), std::string_view(each.path));
  });
}

std::vector<RuleReclaim> ReclaimQueue::take_dropped() {
  return std::exchange(dropped_, {});
}

}  // namespace forestall::actuators

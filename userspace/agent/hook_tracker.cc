// SPDX-License-Identifier: Apache-2.0
#include "agent/hook_tracker.h"

#include <algorithm>
#include <utility>

namespace forestall::agent {

Result<void> HookTracker::start() {
  auto started = runner_.start();
  refusal_ = started ? std::nullopt : std::optional(started.error());
  return started;
}

void HookTracker::request(actuators::HookRequest request, const std::string& cgroup,
                          const std::string& ruleset) {
  Requested& added = requested_.emplace_back();
  added.progress.run = request.run;
  added.progress.hook = request.hook.name;
  added.progress.cgroup = cgroup;
  added.ruleset = ruleset;
  added.progress.started = clock_.now();
  added.until = request.until;
  if (!refusal_) return runner_.run(std::move(request));
  actuators::HookResult refused;
  refused.run = request.run;
  refused.problem = refusal_->text();
  end(added, refused);
}

void HookTracker::cancel() {
  runner_.cancel();
  requested_.clear();
}

void HookTracker::keep_only(const std::function<bool(const std::string& ruleset)>& is_in_force) {
  std::vector<std::uint64_t> ended;
  std::erase_if(requested_, [&](const Requested& each) {
    if (is_in_force(each.ruleset)) return false;
    ended.push_back(each.progress.run);
    return true;
  });
  if (!ended.empty()) runner_.cancel_runs(ended);
}

void HookTracker::end(Requested& requested, const actuators::HookResult& result) {
  requested.ended = clock_.now();
  requested.progress.state = result.state;
  requested.progress.took = result.took;
  requested.progress.exit_code = result.exit_code;
  requested.progress.problem = result.problem;
  ended_.push_back(requested.progress);
}

// Results are taken even if none is awaited: the descriptor stays readable until then.
void HookTracker::collect() {
  for (const actuators::HookResult& each : runner_.take_results()) {
    const auto requested = std::ranges::find_if(requested_, [&](const Requested& one) {
      return one.progress.run == each.run && !one.ended;
    });
    if (requested != requested_.end()) end(*requested, each);
  }
  const MonotonicTime now = clock_.now();
  for (Requested& each : requested_) {
    if (each.ended || now - each.until < kLostAfter) continue;
    actuators::HookResult lost;
    lost.state = HookState::timed_out;
    lost.took = now - each.progress.started;
    end(each, lost);
  }
  std::erase_if(requested_, [&](const Requested& each) {
    return each.ended && now - *each.ended >= kForgetAfter;
  });
}

std::vector<HookProgress> HookTracker::progress() {
  collect();
  std::vector<HookProgress> all;
  for (const Requested& each : requested_) all.push_back(each.progress);
  return all;
}

std::vector<HookProgress> HookTracker::take_ended() {
  collect();
  return std::exchange(ended_, {});
}

}  // namespace forestall::agent

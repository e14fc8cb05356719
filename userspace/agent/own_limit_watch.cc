// SPDX-License-Identifier: Apache-2.0
#include "agent/own_limit_watch.h"

#include <algorithm>
#include <utility>

#include "exports/amount_text.h"

namespace forestall::agent {
namespace {

bool is_own_limit_near(const Evidence& evidence) {
  return evidence.met && evidence.threshold.response != Response::evict;
}

}  // namespace

// A tripwire has set memory.high of its cgroup already, which throttles it as well.
bool OwnLimitWatch::may_slow(const Config& config, const Decision& decision,
                             const Evidence& evidence) const {
  if (evidence.threshold.response != Response::slow || !throttle_.works()) return false;
  if (config.dry_run || has(config.disabled, Feature::memory_high)) return false;
  return std::ranges::none_of(decision.evidence, [&](const Evidence& other) {
    return other.cgroup == evidence.cgroup && other.threshold.tune;
  });
}

bool OwnLimitWatch::evaluate(const Config& config, const Decision& decision) {
  const auto before = std::exchange(near_, {});
  std::vector<actuators::ThrottledCgroup> slowed;
  bool news = false;
  for (const Evidence& evidence : decision.evidence) {
    if (!is_own_limit_near(evidence)) continue;
    const Response response = evidence.threshold.response;
    near_.push_back({evidence.cgroup, evidence.subject, response});
    const bool slows = may_slow(config, decision, evidence);
    if (slows) {
      const Bytes high{evidence.capacity - evidence.limit.value()};
      slowed.push_back({evidence.cgroup, evidence.subject, high});
    }
    const bool known = std::ranges::any_of(before, [&](const Near& each) {
      return each.cgroup == evidence.cgroup && each.response == response;
    });
    if (known) continue;
    news = true;
    report(evidence, slows);
  }
  for (const Near& each : before) {
    const bool still = std::ranges::any_of(near_, [&](const Near& now) {
      return now.cgroup == each.cgroup && now.response == each.response;
    });
    if (still) continue;
    log_.write(exports::LogLevel::info,
               exports::LogLine("own-limit-receded").field("cgroup", each.path));
  }
  throttle_.apply(std::move(slowed));
  for (const std::string& failure : throttle_.take_failures()) {
    log_.write(exports::LogLevel::warning,
               exports::LogLine("own-limit-not-slowed").field("failure", failure));
  }
  return news;
}

void OwnLimitWatch::report(const Evidence& evidence, bool slowed) {
  exports::LogLine line("own-limit-near");
  line.field("cgroup", evidence.subject)
      .field("available", evidence.available)
      .field("margin", evidence.limit.text())
      .field("limit", evidence.capacity)
      .field("response", to_string(evidence.threshold.response))
      .field("slowed", slowed)
      .sentence(fmt::format("{} is near its own limit: {} of {} left{}",
                            exports::logfmt_value(evidence.subject),
                            exports::amount_text(evidence.available),
                            exports::amount_text(evidence.capacity), slowed ? "; throttled" : ""));
  log_.write(exports::LogLevel::warning, line);
}

}  // namespace forestall::agent

// SPDX-License-Identifier: Apache-2.0
#include "top/order.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>
#include <utility>

#include "messages/convert.h"
#include "model/unknown_threshold.h"
#include "policy/rank.h"
#include "tables/rank_text.h"
#include "text/utf8.h"

namespace forestall::top {

void set_order(const std::vector<Candidate>& order, Ranking ranking, internal::TopReport& report) {
  report.set_ranking(std::string(messages::ranking_word(ranking)));
  for (const auto& rule : policy::rules_for(Resource::memory, ranking)) {
    report.add_comparators(std::string(rule.name));
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    internal::TopWorkload& out = *report.add_workloads();
    *out.mutable_candidate() = messages::to_proto(order[i]);
    if (i + 1 < order.size()) {
      out.set_decided_by(std::string(
          policy::deciding_rule(order[i].key, order[i + 1].key, Resource::memory, ranking)));
    }
    out.set_protection_reason(tables::protection_reason(order[i].sample.workload));
    if (order[i].exclusion == Exclusion::none && !report.has_next_victim()) {
      report.set_next_victim(static_cast<std::uint32_t>(i));
    }
  }
}

Result<std::vector<Candidate>> candidates_of(
    const google::protobuf::RepeatedPtrField<v1::Candidate>& order) {
  // messages::from_proto() reads candidates as a part of a decision.
  v1::Decision message;
  message.set_action(v1::Decision::NONE);
  message.set_reason(v1::Decision::NO_DATA);
  *message.mutable_considered() = order;
  Decision decision = TRY(messages::from_proto(message));
  return std::move(decision.considered);
}

void add_unknown(const Config& config, const Observation& observation,
                 internal::TopReport& report) {
  const auto has_values = [&](const v1::Threshold& threshold) {
    return std::ranges::any_of(report.signals().signals(), [&](const v1::Evidence& each) {
      return google::protobuf::util::MessageDifferencer::Equals(each.threshold(), threshold);
    });
  };
  for (const UnknownThreshold& each : unknown_thresholds(config, observation, {})) {
    v1::Threshold threshold = messages::to_proto(each.threshold);
    if (each.threshold.own_limits_of || has_values(threshold)) continue;
    internal::UnknownThreshold& out = *report.add_unknown_thresholds();
    *out.mutable_threshold() = std::move(threshold);
    out.set_subject(text::to_utf8(each.subject));
    out.set_reason(text::to_utf8(each.reason));
  }
}

void add_history(const google::protobuf::RepeatedPtrField<v1::Evidence>& known,
                 internal::TopReport& report) {
  for (v1::Evidence& each : *report.mutable_signals()->mutable_signals()) {
    for (const v1::Evidence& before : known) {
      const bool same = before.subject() == each.subject() &&
                        before.threshold().signal() == each.threshold().signal() &&
                        before.threshold().grace_ns() == each.threshold().grace_ns() &&
                        before.threshold().response() == each.threshold().response() &&
                        before.limit() == each.limit();
      if (!same) continue;
      each.set_pending_release(before.pending_release());
      // The agent applies hysteresis: the threshold is met until the minimum reclaim is available.
      const bool recedes = before.met() && each.threshold().has_minimum_reclaim();
      each.set_met(each.met() || recedes);
      if (!each.met()) continue;
      each.set_driving(before.driving());
      if (before.has_first_met_ns()) each.set_first_met_ns(before.first_met_ns());
    }
  }
}

}  // namespace forestall::top

// SPDX-License-Identifier: Apache-2.0
#include "top/order.h"

#include <string>

#include "messages/convert.h"
#include "policy/rank.h"
#include "tables/rank_text.h"

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

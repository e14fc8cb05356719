// SPDX-License-Identifier: Apache-2.0
// Kills by the kernel's OOM killer, and what was predicted.
#include <cstring>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

// The kernel's comm fields end at their NUL, or fill the array.
std::string_view name_of(const std::array<char, 16>& comm) {
  return {comm.data(), strnlen(comm.data(), comm.size())};
}

v1::OomKillEvent to_proto(const OomKillEvent& event) {
  v1::OomKillEvent out;
  out.set_at_ns(to_ns(event.at));
  *out.mutable_victim() = messages::to_proto(event.victim);
  out.set_name(text::to_utf8(name_of(event.comm)));
  out.set_uid(event.uid);
  out.set_oom_score_adj(event.oom_score_adj);
  if (event.cgroup.inode != 0) out.set_cgroup_id(event.cgroup.inode);
  out.set_path(text::to_utf8(event.path));
  if (event.memory) *out.mutable_memory() = messages::to_proto(*event.memory);
  if (event.points) out.set_points(*event.points);
  if (event.total_pages) out.set_total_pages(*event.total_pages);
  if (event.constraint) {
    out.set_constraint(to_enum<v1::OomDomain::Constraint>(*event.constraint));
  }
  out.set_constraint_deduced(event.constraint_deduced);
  if (event.domain.inode != 0) out.set_domain_cgroup_id(event.domain.inode);
  out.set_domain_path(text::to_utf8(event.domain_path));
  if (event.domain_usage) out.set_domain_usage_bytes(event.domain_usage->count);
  if (event.domain_limit) out.set_domain_limit_bytes(event.domain_limit->count);
  if (event.killer) *out.mutable_killer() = messages::to_proto(*event.killer);
  out.set_killer_name(text::to_utf8(name_of(event.killer_comm)));
  out.set_with_another(event.with_another);
  return out;
}

void read_domain(const v1::OomKillEvent& message, OomKillEvent& event) {
  if (message.has_domain_cgroup_id()) event.domain.inode = message.domain_cgroup_id();
  event.domain_path = message.domain_path();
  if (message.has_domain_usage_bytes()) {
    event.domain_usage = Bytes{message.domain_usage_bytes()};
  }
  if (message.has_domain_limit_bytes()) {
    event.domain_limit = Bytes{message.domain_limit_bytes()};
  }
}

Result<OomKillEvent> from_proto(const v1::OomKillEvent& message) {
  OomKillEvent event;
  event.at = from_ns(message.at_ns());
  event.victim = messages::from_proto(message.victim());
  event.comm = comm_of(message.name());
  event.uid = message.uid();
  event.oom_score_adj = message.oom_score_adj();
  if (message.has_cgroup_id()) event.cgroup.inode = message.cgroup_id();
  event.path = message.path();
  if (message.has_memory()) event.memory = messages::from_proto(message.memory());
  if (message.has_points()) event.points = message.points();
  if (message.has_total_pages()) event.total_pages = message.total_pages();
  if (message.constraint() != v1::OomDomain::CONSTRAINT_UNSPECIFIED) {
    event.constraint = TRY(
        from_enum<Constraint>(message.constraint(), v1::OomDomain::Constraint_MAX, "constraint"));
  }
  event.constraint_deduced = message.constraint_deduced();
  read_domain(message, event);
  if (message.has_killer()) event.killer = messages::from_proto(message.killer());
  event.killer_comm = comm_of(message.killer_name());
  event.with_another = message.with_another();
  return event;
}

v1::OomForecast to_proto(const OomForecast& forecast) {
  v1::OomForecast out;
  out.set_at_ns(to_ns(forecast.at));
  out.set_verdict(to_enum<v1::OomPrediction::Verdict>(forecast.verdict));
  if (forecast.victim) *out.mutable_victim() = messages::to_proto(*forecast.victim);
  out.set_right(forecast.right);
  return out;
}

Result<OomForecast> from_proto(const v1::OomForecast& message) {
  OomForecast forecast;
  forecast.at = from_ns(message.at_ns());
  forecast.verdict =
      TRY(from_enum<OomVerdict>(message.verdict(), v1::OomPrediction::Verdict_MAX, "verdict"));
  if (message.has_victim()) forecast.victim = messages::from_proto(message.victim());
  forecast.right = message.right();
  return forecast;
}

}  // namespace

v1::OomKill to_proto(const OomKill& kill) {
  v1::OomKill out;
  *out.mutable_event() = to_proto(kill.event);
  if (kill.forecast) *out.mutable_forecast() = to_proto(*kill.forecast);
  out.set_inaction(to_enum<v1::OomKill::Inaction>(kill.inaction));
  if (kill.since_crossing) out.set_since_crossing_ns(kill.since_crossing->count());
  if (kill.agent_away) out.set_agent_away_ns(kill.agent_away->count());
  return out;
}

Result<OomKill> from_proto(const v1::OomKill& message) {
  OomKill kill;
  kill.event = TRY(inside("event", from_proto(message.event())));
  if (message.has_forecast()) {
    kill.forecast = TRY(inside("forecast", from_proto(message.forecast())));
  }
  kill.inaction =
      TRY(from_enum<Inaction>(message.inaction(), v1::OomKill::Inaction_MAX, "inaction"));
  if (message.has_since_crossing_ns()) kill.since_crossing = Duration(message.since_crossing_ns());
  if (message.has_agent_away_ns()) kill.agent_away = Duration(message.agent_away_ns());
  return kill;
}

}  // namespace forestall::messages

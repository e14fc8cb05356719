// SPDX-License-Identifier: Apache-2.0
// Kills by the kernel's OOM killer, and what was predicted.
#include <cstring>

#include "api/convert.h"
#include "api/convert_fields.h"
#include "api/utf8.h"

namespace forestall::api {
namespace {

// The kernel's comm fields end at their NUL, or fill the array.
std::string_view name_of(const std::array<char, 16>& comm) {
  return {comm.data(), strnlen(comm.data(), comm.size())};
}

v1::OomKillSighting to_proto(const OomKillSighting& sighting) {
  v1::OomKillSighting out;
  out.set_at_ns(to_ns(sighting.at));
  *out.mutable_victim() = api::to_proto(sighting.victim);
  out.set_name(to_utf8(name_of(sighting.comm)));
  out.set_uid(sighting.uid);
  out.set_oom_score_adj(sighting.oom_score_adj);
  if (sighting.cgroup.inode != 0) out.set_cgroup_id(sighting.cgroup.inode);
  out.set_path(to_utf8(sighting.path));
  if (sighting.memory) *out.mutable_memory() = api::to_proto(*sighting.memory);
  if (sighting.points) out.set_points(*sighting.points);
  if (sighting.total_pages) out.set_total_pages(*sighting.total_pages);
  if (sighting.constraint) {
    out.set_constraint(to_enum<v1::OomDomain::Constraint>(*sighting.constraint));
  }
  out.set_constraint_deduced(sighting.constraint_deduced);
  if (sighting.domain.inode != 0) out.set_domain_cgroup_id(sighting.domain.inode);
  out.set_domain_path(to_utf8(sighting.domain_path));
  if (sighting.domain_usage) out.set_domain_usage_bytes(sighting.domain_usage->count);
  if (sighting.domain_limit) out.set_domain_limit_bytes(sighting.domain_limit->count);
  if (sighting.killer) *out.mutable_killer() = api::to_proto(*sighting.killer);
  out.set_killer_name(to_utf8(name_of(sighting.killer_comm)));
  out.set_with_another(sighting.with_another);
  return out;
}

void read_domain(const v1::OomKillSighting& message, OomKillSighting& sighting) {
  if (message.has_domain_cgroup_id()) sighting.domain.inode = message.domain_cgroup_id();
  sighting.domain_path = message.domain_path();
  if (message.has_domain_usage_bytes()) {
    sighting.domain_usage = Bytes{message.domain_usage_bytes()};
  }
  if (message.has_domain_limit_bytes()) {
    sighting.domain_limit = Bytes{message.domain_limit_bytes()};
  }
}

Result<OomKillSighting> from_proto(const v1::OomKillSighting& message) {
  OomKillSighting sighting;
  sighting.at = from_ns(message.at_ns());
  sighting.victim = api::from_proto(message.victim());
  sighting.comm = comm_of(message.name());
  sighting.uid = message.uid();
  sighting.oom_score_adj = message.oom_score_adj();
  if (message.has_cgroup_id()) sighting.cgroup.inode = message.cgroup_id();
  sighting.path = message.path();
  if (message.has_memory()) sighting.memory = api::from_proto(message.memory());
  if (message.has_points()) sighting.points = message.points();
  if (message.has_total_pages()) sighting.total_pages = message.total_pages();
  if (message.constraint() != v1::OomDomain::CONSTRAINT_UNSPECIFIED) {
    sighting.constraint = TRY(
        from_enum<Constraint>(message.constraint(), v1::OomDomain::Constraint_MAX, "constraint"));
  }
  sighting.constraint_deduced = message.constraint_deduced();
  read_domain(message, sighting);
  if (message.has_killer()) sighting.killer = api::from_proto(message.killer());
  sighting.killer_comm = comm_of(message.killer_name());
  sighting.with_another = message.with_another();
  return sighting;
}

v1::OomForesight to_proto(const OomForesight& foresight) {
  v1::OomForesight out;
  out.set_at_ns(to_ns(foresight.at));
  out.set_verdict(to_enum<v1::OomPrediction::Verdict>(foresight.verdict));
  if (foresight.victim) *out.mutable_victim() = api::to_proto(*foresight.victim);
  out.set_right(foresight.right);
  return out;
}

Result<OomForesight> from_proto(const v1::OomForesight& message) {
  OomForesight foresight;
  foresight.at = from_ns(message.at_ns());
  foresight.verdict =
      TRY(from_enum<OomVerdict>(message.verdict(), v1::OomPrediction::Verdict_MAX, "verdict"));
  if (message.has_victim()) foresight.victim = api::from_proto(message.victim());
  foresight.right = message.right();
  return foresight;
}

}  // namespace

v1::OomKill to_proto(const OomKill& kill) {
  v1::OomKill out;
  *out.mutable_sighting() = to_proto(kill.sighting);
  if (kill.foresight) *out.mutable_foresight() = to_proto(*kill.foresight);
  out.set_inaction(to_enum<v1::OomKill::Inaction>(kill.inaction));
  if (kill.since_crossing) out.set_since_crossing_ns(kill.since_crossing->count());
  return out;
}

Result<OomKill> from_proto(const v1::OomKill& message) {
  OomKill kill;
  kill.sighting = TRY(inside("sighting", from_proto(message.sighting())));
  if (message.has_foresight()) {
    kill.foresight = TRY(inside("foresight", from_proto(message.foresight())));
  }
  kill.inaction =
      TRY(from_enum<Inaction>(message.inaction(), v1::OomKill::Inaction_MAX, "inaction"));
  if (message.has_since_crossing_ns()) kill.since_crossing = Duration(message.since_crossing_ns());
  return kill;
}

}  // namespace forestall::api

// SPDX-License-Identifier: Apache-2.0
#include "cluster/toy_agent.h"

namespace forestall::cluster {

v1::Record kill_of(const std::string& uid) {
  v1::Record record;
  v1::Outcome& outcome = *record.mutable_outcome();
  outcome.set_signalled_ns(to_ns(SystemClock().now()));
  v1::Pod& pod = *outcome.mutable_victim()->mutable_pod();
  pod.set_uid(uid);
  pod.set_name("web-0");
  pod.set_namespace_("shop");
  pod.set_origin(v1::Pod::API);
  return record;
}

v1::Record begun_kill_of(const std::string& uid) {
  v1::Record record = kill_of(uid);
  v1::Decision& decision = *record.mutable_decision();
  decision.add_considered();  // the victim need not be the first candidate
  *decision.add_considered()->mutable_sample()->mutable_workload() = record.outcome().victim();
  decision.add_evictions()->set_candidate(1);
  record.clear_outcome();
  record.mutable_begun()->set_state(v1::KillProgress::IN_FLIGHT);
  return record;
}

}  // namespace forestall::cluster

// SPDX-License-Identifier: Apache-2.0
// A decision: what the policy wants done, with the numbers it compared and everybody it considered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "model/threshold.h"
#include "model/workload.h"

namespace forestall {

enum class Action : std::uint8_t {
  none,     // nothing to do
  inspect,  // a threshold is met: read the workloads and ask again
  kill,     // kill `victim`
};

enum class Reason : std::uint8_t {
  no_data,  // no configured signal could be computed
  no_threshold_met,
  release_pending,   // met, but memory already on its way will satisfy it
  workloads_unread,  // met: the workloads are needed (action inspect)
  no_candidates,     // met, but no workload lies under the threshold's subject
  all_protected,     // met, but every candidate is protected, empty or already tried
  threshold_met,     // action kill
};

[[nodiscard]] std::string_view to_string(Action action);
[[nodiscard]] std::string_view to_string(Reason reason);

// Values compared for one threshold at one time.
struct Evidence {
  Threshold threshold;
  std::string subject;  // "node", or the path of the cgroup
  CgroupId cgroup;      // inode 0 for the node
  Bytes capacity;
  Bytes available;        // capacity - working set
  Bytes limit;            // threshold in bytes for this capacity
  Bytes pending_release;  // credited: memory of kills in flight under this subject
  bool met = false;       // available + pending_release < limit (+ min reclaim when it was met)

  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// Kubelet's keys for memory, in comparison order (pkg/kubelet/eviction/helpers.go
// rankMemoryPressure); the path breaks ties so that the order is total.
struct RankKey {
  bool measured = false;         // without statistics sorts first, as in kubelet
  bool exceeds_request = false;  // working set > request sorts first
  std::int32_t priority = 0;     // lower sorts first
  Bytes over_request;            // working set - request, larger sorts first

  friend bool operator==(const RankKey&, const RankKey&) = default;
};

// Why a candidate was passed over.
enum class Exclusion : std::uint8_t {
  none,
  is_protected,
  kill_in_flight,  // it is being killed already
  kill_failed,     // it was tried and could not be killed
  empty,           // it has no processes
};

[[nodiscard]] std::string_view to_string(Exclusion exclusion);

struct Candidate {
  WorkloadSample sample;
  RankKey key;
  Exclusion exclusion = Exclusion::none;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct Decision {
  Action action = Action::none;
  Reason reason = Reason::no_data;
  std::vector<Evidence> evidence;      // one per threshold and subject, met ones first
  std::optional<std::size_t> driving;  // index into `evidence` of the one that drives `action`
  std::vector<Candidate> considered;   // in eviction order, excluded ones included
  std::optional<std::size_t> victim;   // index into `considered`

  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace forestall

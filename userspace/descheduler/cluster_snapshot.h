// SPDX-License-Identifier: Apache-2.0
// Reads the state of a cluster from what `kubectl get -o json` prints: Lists, or streams of
// objects, as JSON or YAML; and metrics from metrics.k8s.io and Prometheus.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "rebalance/snapshot.h"

namespace forestall::descheduler {

class ClusterSnapshotReader {
 public:
  ClusterSnapshotReader() = default;

  // Adds the objects of a text; kinds that no rule uses are skipped. Errors begin with LINE:COLUMN
  // and name the object. With unused capacity of kJsonPadding the text is not copied.
  [[nodiscard]] Result<void> add(std::string text);
  // The same. REQUIRES: kJsonPadding readable bytes behind the text.
  [[nodiscard]] Result<void> add_padded(std::string_view text);

  // What becomes of an object that the texts have twice.
  enum class Repeated : std::uint8_t { last_counts, kept };

  // Sorted, for the plan at `now_ns`. REQUIRES: called once.
  [[nodiscard]] rebalance::Snapshot take(std::int64_t now_ns,
                                         Repeated repeated = Repeated::last_counts);

  // Bytes that the JSON parser may read behind a text.
  static constexpr std::size_t kJsonPadding = 64;

 private:
  Result<void> add_json(std::string_view text);
  Result<void> add_yaml(std::string_view text);

  rebalance::Snapshot snapshot_;
  std::unordered_map<std::string, rebalance::Nanos> quantities_;
};

}  // namespace forestall::descheduler

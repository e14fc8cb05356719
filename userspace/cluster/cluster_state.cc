// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cluster/rebalance_policy.h"

namespace forestall::cluster {

StateSources sources_of(const rebalance::Policy& policy) {
  // The nodes that a volume allows.
  const bool filters = policy.corrections.has(rebalance::Correction::scheduler_filters);
  const bool has_classes = std::ranges::any_of(policy.profiles, [](const auto& profile) {
    return !profile.evictor.protected_storage_classes.empty();
  });
  return {.claims = filters || has_classes,
          .volumes = filters,
          .node_metrics = policy.kubernetes_metrics && !collects_node_metrics(policy),
          .pod_metrics = policy.kubernetes_metrics,
          .reports = reports_compared(policy) > 0};
}

ClusterState::ClusterState(const StateSources& sources, bool watch, kubernetes::HttpClient& client,
                           const Clock& clock,
                           const std::function<std::function<double()>()>& chances)
    : sources_(sources),
      clock_(clock),
      lister_(chances()),
      sender_(client, lister_, clock, 1, SnapshotLister::kPageBytesMax) {
  if (!watch) return;
  informers_.emplace(watched_kinds(sources.claims, sources.volumes), client, clock, chances);
}

void ClusterState::advance() {
  list_unseen();
  if (informers_) informers_->advance();
  forget_seen();
  list_polled();
  sender_.advance();
}

void ClusterState::fence() {
  if (informers_) fence_ = clock_.now();
}

void ClusterState::evicted(const PodTarget& pod) {
  if (informers_) unseen_.push_back({pod, clock_.now()});
}

// Lists the pods if nothing else proves that they are late enough.
void ClusterState::list_unseen() {
  if (fence_) return informers_->pods().list_since(*fence_);
  if (!begun_ || unseen_.empty() || clock_.now() - *begun_ < kSeenLongest) return;
  informers_->pods().list_since(unseen_.back().ended);
}

void ClusterState::forget_seen() {
  if (fence_ && informers_->pods().listed_since(*fence_)) fence_.reset();
  if (!begun_ || unseen_.empty()) return;
  std::erase_if(unseen_, [this](const UnseenEviction& each) {
    return informers_->shows_eviction(each.pod, each.ended);
  });
}

std::optional<MonotonicTime> ClusterState::due() const {
  std::optional<MonotonicTime> first = sender_.due();
  const auto add = [&first](std::optional<MonotonicTime> other) {
    if (other) first = std::min(first.value_or(*other), *other);
  };
  if (!informers_) return first;
  add(informers_->due());
  if (!waits_for_informers()) return first;
  add(*begun_ + SnapshotLister::kLongest);
  if (!unseen_.empty() && clock_.now() - *begun_ < kSeenLongest) add(*begun_ + kSeenLongest);
  return first;
}

void ClusterState::begin() {
  begun_ = clock_.now();
  polls_ = false;
  list_polled();
}

// What a plan measures is not older than what it had to wait for, which may be minutes.
void ClusterState::list_polled() {
  if (!begun_ || polls_ || (informers_ && !informers_ready())) return;
  polls_ = true;
  std::vector<ListedKind> kinds =
      polled_kinds(sources_.node_metrics, sources_.pod_metrics, sources_.reports);
  if (!informers_) {
    for (const WatchedKind& each : watched_kinds(sources_.claims, sources_.volumes)) {
      kinds.push_back({each.path, each.old_path});
    }
  }
  lister_.begin(std::move(kinds), clock_.now());
}

void ClusterState::cancel() {
  begun_.reset();
  polls_ = false;
  lister_.cancel();
}

bool ClusterState::informers_ready() const {
  return informers_->current() && unseen_.empty() && !fence_;
}

// Until they are ready, or the time for it is over.
bool ClusterState::waits_for_informers() const {
  if (!informers_ || !begun_ || informers_->refused() || informers_ready()) return false;
  return clock_.now() - *begun_ < SnapshotLister::kLongest;
}

bool ClusterState::done() const {
  if (!polls_) return !waits_for_informers() && !(informers_ && informers_ready());
  return lister_.done() && (!lister_.failure().empty() || !waits_for_informers());
}

std::string ClusterState::failure() const {
  if (polls_ && !lister_.failure().empty()) return lister_.failure();
  if (informers_ && !informers_->current()) return informers_->problem();
  if (fence_) {
    const std::string problem = informers_->pods().problem();
    return "the pods have not been listed since this process leads" +
           (problem.empty() ? "" : ": " + problem);
  }
  if (unseen_.empty()) return "";
  const PodTarget& pod = unseen_.front().pod;
  return fmt::format("the watch of pods has not reported the eviction of {}/{}, and no later list",
                     pod.pod_namespace, pod.name);
}

ClusterState::Taken ClusterState::take(std::int64_t wall_ns) {
  Taken taken{.snapshot = lister_.take(wall_ns), .texts = {}, .as_of = lister_.begun()};
  begun_.reset();
  polls_ = false;
  if (!informers_) return taken;
  informers_->add_to(taken.snapshot);
  rebalance::sort(taken.snapshot);
  taken.texts = informers_->texts();
  taken.as_of = std::min(taken.as_of, informers_->confirmed());
  return taken;
}

}  // namespace forestall::cluster

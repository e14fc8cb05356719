// SPDX-License-Identifier: Apache-2.0
#include "rebalance/default_evictor.h"

#include <algorithm>
#include <string>

#include "base/quotes.h"
#include "model/duration.h"
#include "rebalance/node_fit.h"

namespace forestall::rebalance {
namespace {

bool has_budget(const ClusterView& view, const ClusterPod& pod) {
  const auto budgets = view.budgets_in(pod.pod_namespace);
  return std::any_of(budgets.begin(), budgets.end(), [&](std::size_t each) {
    const auto& selector = view.snapshot().budgets[each].selector;
    return selector && matches(*selector, pod.labels);
  });
}

std::string name_in_quotes(const ClusterPod& pod, std::string_view name) {
  return in_double_quotes(pod.pod_namespace) + "/" + in_double_quotes(name);
}

// Why the storage classes of the pod's volumes protect it; empty: they do not.
std::string storage_problem(const ClusterView& view, const ClusterPod& pod,
                            const std::set<std::string, std::less<>>& classes) {
  std::string_view protected_class;
  for (const std::string_view name : pod.claims) {
    const VolumeClaim* const claim = view.find_claim(pod.pod_namespace, name);
    if (claim == nullptr) {
      return "failed to get persistent volume claim " + name_in_quotes(pod, name) +
             ": persistentvolumeclaim \"" + std::string(name) + "\" not found";
    }
    if (claim->storage_class.empty()) {
      return "failed to resolve storage class for pod " + name_in_quotes(pod, name);
    }
    if (protected_class.empty() && classes.contains(claim->storage_class)) {
      protected_class = claim->storage_class;
    }
  }
  if (protected_class.empty()) return "";
  return "pod using protected storage class \"" + std::string(protected_class) + "\"";
}

// Why minReplicas protects the pod; empty: it does not. Pods count, not the replicas of a spec.
std::string replica_problem(const ClusterView& view, const ClusterPod& pod, std::uint64_t least) {
  if (least <= 1 || pod.owners.size() != 1) return "";
  const std::uint64_t replicas = view.pods_owned_by(pod.owners.front().uid, pod.pod_namespace);
  if (replicas >= least) return "";
  return "owner has " + std::to_string(replicas) + " replicas which is less than minReplicas of " +
         std::to_string(least);
}

bool younger(const ClusterView& view, const ClusterPod& pod, Duration age) {
  return !pod.started_ns || view.now_ns() - *pod.started_ns < age.count();
}

}  // namespace

DefaultEvictor::DefaultEvictor(const ClusterView& view, const DefaultEvictorArgs& args)
    : view_(view),
      args_(args),
      verdicts_(args.min_replicas <= 1 ? view.snapshot().pods.size() : 0),
      fit_nodes_(ready_nodes(view, args.node_selector)),
      fit_search_(view, fit_nodes_) {
  for (const PodProtection each : args.protections) {
    protections_ |= 1U << static_cast<unsigned>(each);
  }
}

template <typename Refuse>
void DefaultEvictor::check_filter(PodIndex index, Refuse refuse) const {
  const ClusterPod& pod = view_.pod(index);
  const bool corrected = view_.corrects(Correction::evict_annotation);
  if (corrected && pod.evict_refused) {
    refuse("pod has the annotation evict with the value false");
    return;
  }
  // Any other value counts.
  const bool immovable = pod.mirror || pod.static_pod || pod.terminating;
  if (pod.evict_annotation && !(corrected && immovable)) return;
  if (args_.no_eviction == NoEvictionPolicy::mandatory && pod.prefer_no_eviction) {
    refuse("pod has the prefer-no-eviction annotation, and noEvictionPolicy is Mandatory");
    return;
  }
  const auto check = [&](bool refused, auto reason) { return !refused || refuse(reason()); };
  const auto text = [](const char* words) { return [words] { return std::string(words); }; };
  const bool bare = pod.owners.empty();
  const bool critical = pod.priority && *pod.priority >= kSystemCriticalPriority;
  const bool above = pod.priority && *pod.priority >= args_.priority_threshold;
  const bool failed = pod.phase == PodPhase::failed;
  const bool any_claim = args_.protected_storage_classes.empty();
  const auto storage = [&] { return storage_problem(view_, pod, args_.protected_storage_classes); };
  const auto replicas = [&] { return replica_problem(view_, pod, args_.min_replicas); };
  (void)(check(pod.mirror, text("pod is a mirror pod")) &&
         check(pod.static_pod, text("pod is a static pod")) &&
         check(pod.terminating, text("pod is terminating")) &&
         check(has(PodProtection::system_critical_pods) && critical,
               text("pod has system critical priority and is protected against eviction")) &&
         check(threshold_applies() && above,
               text("pod has higher priority than specified priority class threshold")) &&
         check(has(PodProtection::failed_bare_pods) && bare,
               text("pod does not have any ownerRefs")) &&
         check(!has(PodProtection::failed_bare_pods) && bare && !failed,
               text("pod does not have any ownerRefs and is not in failed phase")) &&
         check(has(PodProtection::pods_with_local_storage) && pod.local_storage,
               text("pod has local storage and is protected against eviction")) &&
         check(has(PodProtection::daemon_set_pods) && view_.summary(index).of_daemon_set,
               text("daemonset pods are protected against eviction")) &&
         check(has(PodProtection::pods_with_pvc) && any_claim && !pod.claims.empty(),
               text("pod with PVC is protected against eviction")) &&
         check(has(PodProtection::pods_with_pvc) && !any_claim && !storage().empty(), storage) &&
         check(has(PodProtection::pods_without_pdb) && !has_budget(view_, pod),
               text("pod does not have a PodDisruptionBudget and is protected against eviction")) &&
         check(has(PodProtection::pods_with_resource_claims) && pod.resource_claims,
               text("pod has ResourceClaims and descheduler is configured to protect "
                    "ResourceClaims pods")) &&
         check(args_.label_selector && !matches(*args_.label_selector, pod.labels),
               text("pod labels do not match the labelSelector filter in the policy parameter")) &&
         check(!replicas().empty(), replicas) &&
         check(args_.min_pod_age && younger(view_, pod, *args_.min_pod_age), [&] {
           return "pod age is not older than MinPodAge: " +
                  forestall::to_string(*args_.min_pod_age) + " seconds";
         }));
}

template <typename Refuse>
void DefaultEvictor::check_pre_eviction(PodIndex index, Refuse refuse) const {
  if (args_.node_fit && !fit_search_.fits_any_other(index) &&
      !refuse("pod does not fit on any other node because of nodeSelector(s), Taint(s), or nodes "
              "marked as unschedulable")) {
    return;
  }
  if (!selects_namespace(view_.pod(index))) {
    refuse("pod namespace do not match the namespaceLabelSelector filter in the policy parameter");
  }
}

bool DefaultEvictor::selects_namespace(const ClusterPod& pod) const {
  if (!args_.namespace_selector || args_.namespace_selector->empty()) return true;
  const ClusterNamespace* const found = view_.find_namespace(pod.pod_namespace);
  return found != nullptr && matches(*args_.namespace_selector, found->labels);
}

bool DefaultEvictor::is_in_scope(PodIndex index) const {
  const ClusterPod& pod = view_.pod(index);
  return (!args_.label_selector || matches(*args_.label_selector, pod.labels)) &&
         selects_namespace(pod);
}

bool DefaultEvictor::filter(PodIndex pod) const {
  if (verdicts_last() && verdicts_[pod] != Verdict::unknown) {
    return verdicts_[pod] == Verdict::passes;
  }
  bool passed = true;
  check_filter(pod, [&](auto&&) { return passed = false; });
  if (verdicts_last()) verdicts_[pod] = passed ? Verdict::passes : Verdict::fails;
  return passed;
}

bool DefaultEvictor::pre_eviction_filter(PodIndex pod) const {
  bool passed = true;
  check_pre_eviction(pod, [&](auto&&) { return passed = false; });
  return passed;
}

Reasons DefaultEvictor::filter_reasons(PodIndex pod) const {
  Reasons reasons;
  check_filter(pod, [&](std::string reason) {
    reasons.push_back(std::move(reason));
    return true;
  });
  return reasons;
}

Reasons DefaultEvictor::pre_eviction_reasons(PodIndex pod) const {
  Reasons reasons;
  check_pre_eviction(pod, [&](std::string reason) {
    reasons.push_back(std::move(reason));
    return true;
  });
  return reasons;
}

}  // namespace forestall::rebalance

// SPDX-License-Identifier: Apache-2.0
// core/v1 Pod into the rebalancer's snapshot. Each object is read in one pass over its members,
// because most of a large snapshot is pods.
#include <fmt/format.h>

#include <algorithm>

#include "base/saturating.h"
#include "descheduler/cluster_objects.h"
#include "rebalance/pod_resources.h"

namespace forestall::descheduler {
namespace {

using rebalance::ClusterPod;
using text::JsonValue;

constexpr std::string_view kEvict = "descheduler.alpha.kubernetes.io/evict";
constexpr std::string_view kPreferNoEviction = "descheduler.alpha.kubernetes.io/prefer-no-eviction";
constexpr std::string_view kBackground = "descheduler.alpha.kubernetes.io/request-evict-only";
constexpr std::string_view kInProgress = "descheduler.alpha.kubernetes.io/eviction-in-progress";
constexpr std::string_view kMirror = "kubernetes.io/config.mirror";
constexpr std::string_view kSource = "kubernetes.io/config.source";

PodPhase phase_named(std::string_view word) {
  if (word == "Pending") return PodPhase::pending;
  if (word == "Running") return PodPhase::running;
  if (word == "Succeeded") return PodPhase::succeeded;
  if (word == "Failed") return PodPhase::failed;
  return PodPhase::unknown;
}

Result<void> read_pod_annotations(const JsonValue& annotations, ClusterPod& pod) {
  return annotations.each_member([&](std::string_view key, const JsonValue& value) -> Result<void> {
    if (key == kEvict) {
      pod.evict_annotation = true;
      const auto word = value.string();
      pod.evict_refused = word && *word == "false";
    }
    if (key == kPreferNoEviction) pod.prefer_no_eviction = true;
    if (key == kBackground) pod.background_allowed = true;
    if (key == kInProgress) pod.background_in_progress = true;
    if (key == kMirror) pod.mirror = true;
    if (key == kSource) {
      pod.static_pod = (value.is_null() ? std::string_view() : TRY(value.string())) != "api";
    }
    return {};
  });
}

Result<std::int32_t> number32(const JsonValue& value) {
  const std::int64_t number = TRY(value.integer());
  const auto narrow = static_cast<std::int32_t>(number);
  if (narrow != number) return value.wrong(fmt::format("does not fit into 32 bits: {}", number));
  return narrow;
}

}  // namespace

Result<void> ObjectReader::pod_metadata(const Value& metadata, ClusterPod& pod) {
  std::int64_t grace = 0;  // seconds
  const auto read_member = [&](std::string_view key, const Value& value) -> Result<void> {
    if (value.is_null()) return {};
    if (key == "name") {
      pod.name = TRY(text(value));
    } else if (key == "namespace") {
      pod.pod_namespace = TRY(text(value));
    } else if (key == "uid") {
      pod.uid = TRY(text(value));
    } else if (key == "labels") {
      pod.labels = TRY(labels(value));
    } else if (key == "annotations") {
      TRY(read_pod_annotations(value, pod));
    } else if (key == "creationTimestamp") {
      pod.created_ns = TRY(time(value));
    } else if (key == "deletionTimestamp") {
      pod.terminating = true;
      if (const auto end = time(value)) pod.deleted_ns = *end;
    } else if (key == "deletionGracePeriodSeconds") {
      if (const auto seconds = value.integer()) grace = *seconds;
    } else if (key == "ownerReferences") {
      const auto add_owner = [&](const Value& item) -> Result<void> {
        rebalance::PodOwner& owner = pod.owners.emplace_back();
        owner.kind = snapshot_.texts->keep(TRY(item.text("kind")));
        owner.name = snapshot_.texts->keep(TRY(item.text("name")));
        owner.uid = snapshot_.texts->keep(TRY(item.text("uid")));
        return {};
      };
      TRY(value.each(add_owner));
    }
    return {};
  };
  TRY(metadata.each_member(read_member));
  // deletionTimestamp is when the grace period ends.
  constexpr std::int64_t kGraceMax = std::int64_t{366} * 24 * 3600;
  const std::int64_t grace_ns =
      std::clamp<std::int64_t>(grace, 0, kGraceMax) * rebalance::kNanosPerUnit;
  if (pod.deleted_ns) pod.deleted_ns = saturating_subtract(*pod.deleted_ns, grace_ns);
  return {};
}

Result<void> ObjectReader::pod_volume(const Value& volume, ClusterPod& pod) {
  return volume.each_member([&](std::string_view key, const Value& source) -> Result<void> {
    if (source.is_null()) return {};
    if (key == "hostPath" || key == "emptyDir") pod.local_storage = true;
    if (key == "persistentVolumeClaim") {
      pod.claims.push_back(snapshot_.texts->keep(TRY(source.text("claimName"))));
    }
    return {};
  });
}

Result<void> ObjectReader::pod_resources(const Value& spec, ClusterPod& pod) {
  rebalance::PodResources resources;
  const auto read_list = [&](const Value& object,
                             std::string_view key) -> Result<rebalance::Amounts> {
    const auto list = TRY(object.find(key));
    if (!list) return rebalance::Amounts();
    return amounts(*list);
  };
  const auto read_containers = [&](std::string_view key, auto& out) {
    return spec.each_in(key, [&](const Value& item) -> Result<void> {
      rebalance::ContainerResources& each = out.emplace_back();
      each.restartable = TRY(item.text("restartPolicy")) == "Always";
      if (const auto found = TRY(item.find("resources"))) {
        each.requests = TRY(read_list(*found, "requests"));
        each.limits = TRY(read_list(*found, "limits"));
      }
      if (key == "containers" || each.restartable) TRY(host_ports(item, pod));
      if (key != "containers") return {};
      pod.images.push_back(snapshot_.texts->keep(TRY(item.text("image"))));
      return {};
    });
  };
  TRY(read_containers("containers", resources.containers));
  TRY(read_containers("initContainers", resources.init_containers));
  resources.overhead = TRY(read_list(spec, "overhead"));
  if (const auto found = TRY(spec.find("resources"))) {
    if (TRY(found->find("requests"))) resources.pod_requests = TRY(read_list(*found, "requests"));
  }
  pod.request = rebalance::pod_request(resources);
  pod.requested_resources = rebalance::requested_resources(resources);
  pod.qos = rebalance::qos_class(resources);
  return {};
}

// Ports of the node: of containers and sidecars.
Result<void> ObjectReader::host_ports(const Value& container, ClusterPod& pod) {
  return container.each_in("ports", [&](const Value& item) -> Result<void> {
    const auto number = TRY(item.find("hostPort"));
    if (!number) return {};
    rebalance::HostPort port;
    port.port = TRY(number->integer());
    if (port.port <= 0) return {};
    port.protocol = snapshot_.texts->keep(TRY(item.text("protocol")));
    if (port.protocol.empty()) port.protocol = "TCP";
    port.address = snapshot_.texts->keep(TRY(item.text("hostIP")));
    pod.host_ports.push_back(port);
    return {};
  });
}

Result<rebalance::PodAffinityTerm> ObjectReader::pod_affinity_term(const Value& term) {
  rebalance::PodAffinityTerm out;
  if (const auto found = TRY(term.find("labelSelector"))) out.selector = TRY(selector(*found));
  if (const auto found = TRY(term.find("topologyKey"))) out.topology_key = TRY(text(*found));
  if (const auto found = TRY(term.find("namespaces"))) out.namespaces = TRY(texts(*found));
  if (const auto found = TRY(term.find("namespaceSelector"))) {
    out.namespace_selector = TRY(selector(*found));
  }
  return out;
}

Result<rebalance::SpreadConstraint> ObjectReader::spread(const Value& constraint) {
  rebalance::SpreadConstraint out;
  const auto read_constraint = [&](std::string_view key, const Value& value) -> Result<void> {
    if (value.is_null()) return {};
    if (key == "maxSkew") out.max_skew = TRY(number32(value));
    if (key == "minDomains") out.min_domains = TRY(value.integer());
    if (key == "topologyKey") out.topology_key = TRY(text(value));
    if (key == "whenUnsatisfiable") out.when_unsatisfiable = TRY(text(value));
    if (key == "labelSelector") out.selector = TRY(selector(value));
    if (key == "matchLabelKeys") out.match_label_keys = TRY(texts(value));
    if (key == "nodeAffinityPolicy") out.honors_node_affinity = TRY(value.string()) == "Honor";
    if (key == "nodeTaintsPolicy") out.honors_node_taints = TRY(value.string()) == "Honor";
    return {};
  };
  TRY(constraint.each_member(read_constraint));
  return out;
}

Result<void> ObjectReader::node_affinity(const Value& affinity,
                                         rebalance::PodPlacement& placement) {
  placement.has_node_affinity = true;
  if (const auto required = TRY(affinity.find("requiredDuringSchedulingIgnoredDuringExecution"))) {
    auto& terms = placement.required_nodes.emplace();
    const auto add_term = [&](const Value& item) -> Result<void> {
      terms.push_back(TRY(node_term(item)));
      return {};
    };
    TRY(required->each_in("nodeSelectorTerms", add_term));
  }
  return affinity.each_in(
      "preferredDuringSchedulingIgnoredDuringExecution", [&](const Value& item) -> Result<void> {
        rebalance::PreferredTerm& term = placement.preferred_nodes.emplace_back();
        if (const auto weight = TRY(item.find("weight"))) term.weight = TRY(number32(*weight));
        if (const auto found = TRY(item.find("preference")))
          term.preference = TRY(node_term(*found));
        return {};
      });
}

Result<void> ObjectReader::pod_affinity(const Value& affinity, std::string_view kind,
                                        std::vector<rebalance::PodAffinityTerm>& out) {
  const auto found = TRY(affinity.find(kind));
  if (!found) return {};
  const auto add_term = [&](const Value& item) -> Result<void> {
    out.push_back(TRY(pod_affinity_term(item)));
    return {};
  };
  return found->each_in("requiredDuringSchedulingIgnoredDuringExecution", add_term);
}

Result<void> ObjectReader::pod_placement(const Value& spec, ClusterPod& pod) {
  const auto node_selector = TRY(spec.find("nodeSelector"));
  const auto affinity = TRY(spec.find("affinity"));
  const auto constraints = TRY(spec.find("topologySpreadConstraints"));
  if (!node_selector && !affinity && !constraints) return {};
  const auto placement = std::make_shared<rebalance::PodPlacement>();
  if (node_selector) placement->node_selector = TRY(labels(*node_selector));
  if (affinity) {
    if (const auto found = TRY(affinity->find("nodeAffinity"))) {
      TRY(node_affinity(*found, *placement));
    }
    TRY(pod_affinity(*affinity, "podAntiAffinity", placement->anti_affinity));
    TRY(pod_affinity(*affinity, "podAffinity", placement->pod_affinity));
  }
  if (constraints) {
    const auto add_spread = [&](const Value& item) -> Result<void> {
      placement->spread.push_back(TRY(spread(item)));
      return {};
    };
    TRY(constraints->each(add_spread));
  }
  pod.placement = placement;
  if (pod.owners.empty()) return {};
  auto& last = placements_[pod.owners.front().uid];
  if (last && *last == *placement) pod.placement = last;
  last = pod.placement;
  return {};
}

Result<void> ObjectReader::pod_spec(const Value& spec, ClusterPod& pod) {
  TRY(pod_resources(spec, pod));
  TRY(pod_placement(spec, pod));
  return spec.each_member([&](std::string_view key, const Value& value) -> Result<void> {
    if (value.is_null()) return {};
    if (key == "nodeName") {
      pod.node = TRY(text(value));
    } else if (key == "priority") {
      pod.priority = TRY(number32(value));
    } else if (key == "preemptionPolicy") {
      pod.preempts = TRY(value.string()) != "Never";
    } else if (key == "volumes") {
      const auto add_volume = [&](const Value& item) { return pod_volume(item, pod); };
      TRY(value.each(add_volume));
    } else if (key == "resourceClaims") {
      const auto add_claim = [&](const Value&) -> Result<void> {
        pod.resource_claims = true;
        return {};
      };
      TRY(value.each(add_claim));
    } else if (key == "tolerations") {
      const auto add_toleration = [&](const Value& item) -> Result<void> {
        pod.tolerations.push_back(TRY(toleration(item)));
        return {};
      };
      TRY(value.each(add_toleration));
    }
    return {};
  });
}

Result<rebalance::ContainerState> ObjectReader::container_state(const Value& status) {
  rebalance::ContainerState out;
  if (const auto restarts = TRY(status.find("restartCount"))) {
    out.restarts = TRY(number32(*restarts));
  }
  const auto state = TRY(status.find("state"));
  if (!state) return out;
  if (const auto waiting = TRY(state->find("waiting"))) {
    out.waiting = true;
    out.reason = snapshot_.texts->keep(TRY(waiting->text("reason")));
  } else if (const auto terminated = TRY(state->find("terminated"))) {
    out.terminated = true;
    out.reason = snapshot_.texts->keep(TRY(terminated->text("reason")));
    if (const auto code = TRY(terminated->find("exitCode"))) out.exit_code = TRY(number32(*code));
  }
  return out;
}

Result<rebalance::PodCondition> ObjectReader::condition(const Value& value) {
  rebalance::PodCondition out;
  const auto read_condition = [&](std::string_view key, const Value& member) -> Result<void> {
    if (member.is_null()) return {};
    if (key == "type") out.type = TRY(text(member));
    if (key == "status") out.status = TRY(text(member));
    if (key == "reason") out.reason = TRY(text(member));
    if (key == "lastTransitionTime") out.transition_ns = TRY(time(member));
    return {};
  };
  TRY(value.each_member(read_condition));
  return out;
}

Result<void> ObjectReader::pod_status(const Value& status, ClusterPod& pod) {
  const auto read_states = [&](const Value& list, std::vector<rebalance::ContainerState>& out) {
    return list.each([&](const Value& item) -> Result<void> {
      out.push_back(TRY(container_state(item)));
      return {};
    });
  };
  return status.each_member([&](std::string_view key, const Value& value) -> Result<void> {
    if (value.is_null()) return {};
    if (key == "phase") {
      pod.phase_text = TRY(text(value));
      pod.phase = phase_named(pod.phase_text);
    } else if (key == "reason") {
      pod.reason = TRY(text(value));
    } else if (key == "startTime") {
      pod.started_ns = TRY(time(value));
    } else if (key == "qosClass") {
      if (const auto qos = parse_qos_class(TRY(value.string()))) pod.qos = *qos;
    } else if (key == "containerStatuses") {
      TRY(read_states(value, pod.containers));
    } else if (key == "initContainerStatuses") {
      TRY(read_states(value, pod.init_containers));
    } else if (key == "ephemeralContainerStatuses") {
      TRY(read_states(value, pod.ephemeral_containers));
    } else if (key == "conditions") {
      const auto add_condition = [&](const Value& item) -> Result<void> {
        pod.conditions.push_back(TRY(condition(item)));
        return {};
      };
      TRY(value.each(add_condition));
    }
    return {};
  });
}

Result<void> ObjectReader::add_pod(const Value& object) {
  ClusterPod pod;
  const Value metadata = TRY(object.at("metadata"));
  TRY(pod_metadata(metadata, pod));  // before the spec: pod_placement() needs the owner
  if (pod.name.empty()) return object.wrong("metadata: 'name' is missing");
  if (const auto spec = TRY(object.find("spec"))) TRY(pod_spec(*spec, pod));
  if (const auto status = TRY(object.find("status"))) TRY(pod_status(*status, pod));
  snapshot_.pods.push_back(std::move(pod));
  return {};
}

}  // namespace forestall::descheduler

// SPDX-License-Identifier: Apache-2.0
// `kubectl forestall why POD`: the Events about the pod, and what of the pod and its node allows or
// prevents an eviction.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cluster/kubectl_command.h"
#include "cluster/node_guard.h"
#include "cluster/reported_event.h"
#include "intake/pod_list.h"
#include "kubernetes/url.h"
#include "policy/protection.h"
#include "policy/qos.h"
#include "tables/rank_text.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

// The pod as the API server has it now.
struct PresentPod {
  std::string uid;
  std::string node;
  std::string phase;
  std::string quality;            // QoS class
  std::string priority;           // empty: none
  std::string protection;         // why no agent kills it; empty: it may be killed
  std::string disruption_target;  // reason of the condition, if it is true
  std::vector<std::pair<std::string, std::string>> annotations;  // Forestall's own
};

struct PodFinding {
  std::string name;  // "shop/web-0"
  std::optional<PresentPod> pod;
  std::vector<ReportedEvent> events;
  std::optional<NodeObject> node;  // of the pod
};

Result<void> read_pod_status(const text::JsonValue& object, PresentPod& pod) {
  const auto status = TRY(object.find("status"));
  if (!status) return {};
  pod.phase = TRY(status->text("phase"));
  return status->each_in("conditions", [&pod](const text::JsonValue& each) -> Result<void> {
    if (TRY(each.text("type")) != "DisruptionTarget") return {};
    if (TRY(each.text("status")) == "True") pod.disruption_target = TRY(each.text("reason"));
    return {};
  });
}

std::string protection_of_pod(const Pod& pod) {
  if (pod.origin == PodOrigin::mirror) {
    return "it is a static pod by its annotation (only a real static pod is protected by it)";
  }
  Workload workload;
  workload.kind = WorkloadKind::pod;
  workload.name = pod.name;
  workload.pod_uid = pod.uid;
  workload.priority = pod.priority;
  workload.pod = std::make_shared<const Pod>(pod);
  return policy::protection_of(workload) == Protection::none ? ""
                                                             : tables::protection_reason(workload);
}

std::vector<std::pair<std::string, std::string>> own_annotations(const PodAnnotations& given) {
  std::vector<std::pair<std::string, std::string>> annotations;
  const auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) annotations.emplace_back(std::string("forestall.dev/") + name, *value);
  };
  add("protected", given.is_protected);
  add("prefer", given.prefer);
  add("avoid", given.avoid);
  return annotations;
}

Result<PresentPod> read_present_pod(const std::string& body) {
  const auto document = TRY(text::JsonDocument::parse(body));
  const text::JsonValue root = document.root();
  const intake::ListedPod listed = TRY(intake::read_listed_pod(root));
  PresentPod pod;
  pod.uid = listed.pod.uid;
  pod.node = listed.node;
  pod.quality = to_string(policy::qos_class(listed.pod));
  if (listed.pod.priority) pod.priority = std::to_string(*listed.pod.priority);
  pod.protection = protection_of_pod(listed.pod);
  pod.annotations = own_annotations(listed.pod.annotations);
  TRY(read_pod_status(root, pod));
  return pod;
}

Result<PodFinding> find_pod(ApiReader& api, const KubectlOptions& options, KubectlReport& report) {
  PodFinding finding;
  finding.name = options.pod_namespace + '/' + options.object;
  const std::string where =
      "/api/v1/namespaces/" + kubernetes::percent_encoded(options.pod_namespace);
  const std::string name = kubernetes::percent_encoded(options.object);
  if (const auto body = TRY(api.find(where + "/pods/" + name))) {
    finding.pod = TRY(read_present_pod(*body));
  }
  ReportedEvents events =
      TRY(read_events(api, where +
                               "/events?fieldSelector=involvedObject.kind%3DPod%2C"
                               "involvedObject.name%3D" +
                               name));
  auto note = unreadable_note(events);
  if (note) report.notes.push_back(*std::move(note));
  finding.events = std::move(events.list);
  std::erase_if(finding.events, [&options](const ReportedEvent& each) {
    return each.kind != "Pod" || each.name != options.object;
  });
  if (!finding.pod && finding.events.empty()) {
    return error(fmt::format("no pod {}, and no Event of Forestall about one of this name{}",
                             finding.name,
                             report.notes.empty() ? "; the API server keeps Events for an hour by "
                                                    "default"
                                                  : "; " + report.notes.front()));
  }
  if (!finding.pod || finding.pod->node.empty()) return finding;
  const auto body = api.get("/api/v1/nodes/" + kubernetes::percent_encoded(finding.pod->node));
  auto node = body ? parse_node(*body) : Result<NodeObject>(body.error());
  if (node) {
    finding.node = *std::move(node);
  } else {
    report.notes.push_back("the state of the node is unknown: " + node.error().text());
  }
  return finding;
}

bool was_evicted(const PodFinding& finding) {
  return std::ranges::any_of(finding.events, [&finding](const ReportedEvent& each) {
    return each.reason == "Evicted" && (!finding.pod || each.uid == finding.pod->uid);
  });
}

std::string state_of(const PresentPod& pod) {
  std::string text =
      fmt::format("{}, {}, priority {}", pod.phase.empty() ? "no phase" : escaped(pod.phase),
                  pod.quality, pod.priority.empty() ? "unknown" : pod.priority);
  text += pod.node.empty() ? ", on no node" : ", on node " + escaped(pod.node);
  return text;
}

// What of the node prevents an eviction, or would cause one.
std::string state_of_node(const PresentPod& pod, const NodeObject& node,
                          std::int64_t wall_seconds) {
  if (node.is_unguarded) return "the agent of the node does not answer; the node is unguarded";
  const std::string_view pressure = current_pressure(node, wall_seconds);
  if (pressure == "True") {
    return fmt::format(
        "a memory threshold of the node is met, or was met a short time ago; the order of "
        "eviction: kubectl forestall rank {}",
        pod.node);
  }
  if (pressure == "False") return "no memory threshold of the node is met";
  if (pressure.empty() && !node.condition_heartbeat.empty()) {
    return fmt::format(
        "the node has no current report: the last one was at {}, and `forestall cluster` does not "
        "run on it now",
        node.condition_heartbeat);
  }
  return "the node has no current report: `forestall cluster` is not running on it, or its agent "
         "has just begun";
}

// In the order in which they are to be read. As they are in the API, for JSON too.
std::vector<std::string> reasons_of(const PodFinding& finding, std::int64_t wall_seconds) {
  std::vector<std::string> reasons;
  if (was_evicted(finding)) return reasons;
  reasons.emplace_back(
      "no Event `Evicted` of Forestall for this pod; the API server keeps Events for an hour by "
      "default");
  if (!finding.pod) return reasons;
  if (!finding.pod->protection.empty()) {
    reasons.push_back("the agent never evicts it: " + finding.pod->protection);
  }
  for (const auto& [name, value] : finding.pod->annotations) {
    reasons.push_back(fmt::format(
        "annotation {}: '{}', which has an effect if podAnnotations of the node's agent lists the "
        "namespace; `forestall status` there shows whether it has",
        name, value));
  }
  if (finding.pod->node.empty()) reasons.emplace_back("it runs on no node");
  if (finding.node) {
    reasons.push_back(state_of_node(*finding.pod, *finding.node, wall_seconds));
  }
  return reasons;
}

// Every user with the right to create Events may write any text into one.
std::string event_text(const ReportedEvent& event, const PodFinding& finding) {
  const bool is_earlier = finding.pod && event.uid != finding.pod->uid;
  std::string text =
      fmt::format("{} {}{}{}: {}\n", escaped(event.last), escaped(event.reason),
                  event.count > 1 ? fmt::format(" ({} times)", event.count) : "",
                  is_earlier ? ", an earlier pod of this name" : "", escaped(event.message));
  for (const auto& [key, value] : event.annotations) {
    if (value.empty()) continue;  // containers, which a kill at once does not read
    text += fmt::format("  {}: {}\n", escaped(key), escaped(value));
  }
  if (!event.node.empty()) {
    text += fmt::format("  record: `forestall events --since {}` on node {}\n",
                        escaped(event.first), escaped(event.node));
  }
  return text;
}

std::string text_of(const PodFinding& finding, std::int64_t wall_seconds) {
  std::string text =
      fmt::format("pod {}: {}\n", escaped(finding.name),
                  finding.pod ? state_of(*finding.pod) : "the API server has no such pod now");
  for (const ReportedEvent& each : finding.events) text += event_text(each, finding);
  if (was_evicted(finding)) {
    text += "evicted by Forestall\n";
  } else {
    text += "not evicted by Forestall, as far as the API server shows:\n";
  }
  for (const std::string& reason : reasons_of(finding, wall_seconds)) {
    text += fmt::format("  - {}\n", escaped(reason));
  }
  if (finding.pod && !finding.pod->disruption_target.empty()) {
    text += "condition DisruptionTarget: " + escaped(finding.pod->disruption_target) + '\n';
  }
  return text;
}

std::string json_of(const PodFinding& finding, const KubectlOptions& options) {
  auto out = text::JsonOutput::object();
  out.set("namespace", options.pod_namespace);
  out.set("name", options.object);
  out.set("exists", finding.pod.has_value());
  out.set("evicted", was_evicted(finding));
  if (finding.pod) {
    const PresentPod& pod = *finding.pod;
    out.set("uid", pod.uid);
    out.set("phase", pod.phase);
    out.set("qosClass", pod.quality);
    if (!pod.priority.empty()) out.set("priority", pod.priority);
    if (!pod.node.empty()) out.set("node", pod.node);
    if (!pod.protection.empty()) out.set("protection", pod.protection);
    if (!pod.disruption_target.empty()) out.set("disruptionTarget", pod.disruption_target);
    if (!pod.annotations.empty()) {
      auto annotations = text::JsonOutput::object();
      for (const auto& [name, value] : pod.annotations) annotations.set(name, value);
      out.set("annotations", std::move(annotations));
    }
  }
  if (finding.node) {
    out.set("nodeUnguarded", finding.node->is_unguarded);
    out.set("nodePressure", current_pressure(*finding.node, options.wall_seconds));
    out.set("nodeLastHeartbeatTime", finding.node->condition_heartbeat);
  }
  auto reasons = text::JsonOutput::list();
  for (const std::string& each : reasons_of(finding, options.wall_seconds)) reasons.add(each);
  out.set("reasons", std::move(reasons));
  auto events = text::JsonOutput::list();
  for (const ReportedEvent& each : finding.events) events.add(to_json(each));
  out.set("events", std::move(events));
  return out.pretty();
}

}  // namespace

Result<KubectlReport> report_pod(ApiReader& api, const KubectlOptions& options) {
  KubectlReport report;
  const PodFinding finding = TRY(find_pod(api, options, report));
  report.text = options.json ? json_of(finding, options) : text_of(finding, options.wall_seconds);
  return report;
}

}  // namespace forestall::cluster

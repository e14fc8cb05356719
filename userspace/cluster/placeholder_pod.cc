// SPDX-License-Identifier: Apache-2.0
#include "cluster/placeholder_pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/quotes.h"
#include "kubernetes/api_status.h"
#include "kubernetes/url.h"
#include "text/json_value.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

using rebalance::ClusterPod;
using text::JsonWriter;

// The kubelet ends a placeholder so long after its time, if no rebalancer removes it.
constexpr std::uint64_t kDeadlineMarginSeconds = 60;
// The kubelet admits the replacement when the placeholder's processes are gone.
constexpr std::int64_t kGraceSeconds = 1;
constexpr std::int64_t kUnprivileged = 65535;

// Requests of other resources need an equal limit.
bool may_exceed_request(std::string_view resource) {
  return resource == rebalance::kCpu || resource == rebalance::kMemory ||
         resource == "ephemeral-storage";
}

std::string quantity(const rebalance::Amount& amount) {
  return std::to_string(rebalance::counted(amount.resource, amount.nanos)) +
         (amount.resource == rebalance::kCpu ? "m" : "");
}

template <typename Wanted>
void write_amounts(JsonWriter& out, std::string_view key, const rebalance::Amounts& request,
                   Wanted wanted) {
  out.key(key);
  out.begin_object();
  for (const rebalance::Amount& each : request) {
    if (each.nanos <= 0 || each.resource == rebalance::kPods || !wanted(each.resource)) continue;
    out.member(each.resource, quantity(each));
  }
  out.end_object();
}

void write_container(JsonWriter& out, const ClusterPod& pod, const std::string& image) {
  out.begin_object();
  out.member("name", "room");
  out.member("image", image);
  out.key("resources");
  out.begin_object();
  write_amounts(out, "requests", pod.request, [](std::string_view) { return true; });
  write_amounts(out, "limits", pod.request,
                [](std::string_view resource) { return !may_exceed_request(resource); });
  out.end_object();
  out.key("securityContext");
  out.raw(R"({"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,)"
          R"("capabilities":{"drop":["ALL"]}})");
  out.end_object();
}

std::string_view effect_word(rebalance::TaintEffect effect) {
  switch (effect) {
    case rebalance::TaintEffect::no_schedule: return "NoSchedule";
    case rebalance::TaintEffect::prefer_no_schedule: return "PreferNoSchedule";
    case rebalance::TaintEffect::no_execute: return "NoExecute";
    case rebalance::TaintEffect::other: return "";
  }
  return "";
}

// Empty: none that the API server takes.
std::string_view operator_word(rebalance::TolerationOperator op) {
  switch (op) {
    case rebalance::TolerationOperator::equal: return "Equal";
    case rebalance::TolerationOperator::exists: return "Exists";
    case rebalance::TolerationOperator::greater: return "Gt";
    case rebalance::TolerationOperator::less: return "Lt";
    case rebalance::TolerationOperator::unknown: return "";
  }
  return "";
}

void write_tolerations(JsonWriter& out, const ClusterPod& pod) {
  out.key("tolerations");
  out.begin_list();
  for (const rebalance::PodToleration& each : pod.tolerations) {
    const std::string_view op = operator_word(each.op);
    if (op.empty() || each.effect == rebalance::TaintEffect::other) continue;
    out.begin_object();
    if (!each.key.empty()) out.member("key", each.key);
    out.member("operator", op);
    if (!each.value.empty()) out.member("value", each.value);
    if (each.effect) out.member("effect", effect_word(*each.effect));
    out.end_object();
  }
  out.end_list();
}

// Not spec.nodeName: the scheduler decides whether the room is there.
void write_affinity(JsonWriter& out, std::string_view node) {
  const auto open = [&out](std::string_view key) {
    out.key(key);
    out.begin_object();
  };
  const auto open_only_item = [&out](std::string_view key) {
    out.key(key);
    out.begin_list();
    out.begin_object();
  };
  const auto close_only_item = [&out] {
    out.end_object();
    out.end_list();
  };
  open("affinity");
  open("nodeAffinity");
  open("requiredDuringSchedulingIgnoredDuringExecution");
  open_only_item("nodeSelectorTerms");
  open_only_item("matchFields");
  out.member("key", "metadata.name");
  out.member("operator", "In");
  out.key("values");
  out.begin_list();
  out.value(node);
  out.end_list();
  close_only_item();
  close_only_item();
  for (int i = 0; i < 3; ++i) out.end_object();
}

void write_spec(JsonWriter& out, const rebalance::PlaceholderSettings& settings,
                const ClusterPod& pod, std::string_view node) {
  out.key("spec");
  out.begin_object();
  out.member("activeDeadlineSeconds", settings.seconds + kDeadlineMarginSeconds);
  out.member("terminationGracePeriodSeconds", kGraceSeconds);
  out.member("priorityClassName", settings.priority_class);
  out.member("automountServiceAccountToken", false);
  out.member("enableServiceLinks", false);
  out.key("securityContext");
  out.begin_object();
  out.member("runAsNonRoot", true);
  out.member("runAsUser", kUnprivileged);
  out.member("runAsGroup", kUnprivileged);
  out.key("seccompProfile");
  out.raw(R"({"type":"RuntimeDefault"})");
  out.end_object();
  write_tolerations(out, pod);
  write_affinity(out, node);
  out.key("containers");
  out.begin_list();
  write_container(out, pod, settings.image);
  out.end_list();
  out.end_object();
}

std::string manifest_of(const rebalance::PlaceholderSettings& settings, const ClusterPod& pod,
                        std::string_view node, const std::string& plan) {
  JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("apiVersion", "v1");
  out.member("kind", "Pod");
  out.key("metadata");
  out.begin_object();
  out.member("name", placeholder_name(std::string(pod.uid)));
  out.member("namespace", settings.pod_namespace);
  out.key("labels");
  out.begin_object();
  out.member(kPlanLabel, plan);
  out.end_object();
  out.key("annotations");
  out.begin_object();
  out.member("forestall.dev/moved-pod", fmt::format("{}/{}", pod.pod_namespace, pod.name));
  out.end_object();
  out.end_object();
  write_spec(out, settings, pod, node);
  out.end_object();
  return std::move(out).take();
}

// Of kube-scheduler, and of the kubelet.
Result<std::string> problem_of(const text::JsonValue& status) {
  const std::string phase = TRY(status.text("phase"));
  if (phase == "Failed" || phase == "Succeeded") {
    return fmt::format("it ended: {} {}", TRY(status.text("reason")), TRY(status.text("message")));
  }
  std::string problem;
  const auto read_condition = [&problem](const text::JsonValue& each) -> Result<void> {
    if (TRY(each.text("type")) != "PodScheduled" || TRY(each.text("status")) != "False") return {};
    if (TRY(each.text("reason")) == "Unschedulable") problem = TRY(each.text("message"));
    return {};
  };
  TRY(status.each_in("conditions", read_condition));
  return problem;
}

}  // namespace

Result<std::int32_t> placeholder_priority(const rebalance::PlaceholderSettings& settings,
                                          const rebalance::Snapshot& snapshot) {
  const auto found = std::ranges::find(snapshot.priority_classes, settings.priority_class,
                                       &rebalance::PriorityClass::name);
  if (found != snapshot.priority_classes.end()) return found->value;
  return error(
      fmt::format("the cluster has no PriorityClass {} for placeholders; create it or set "
                  "placeholder.priorityClassName",
                  in_quotes(settings.priority_class)));
}

Result<WantedRoom> wanted_room(const rebalance::PlaceholderSettings& settings,
                               const rebalance::Snapshot& snapshot, std::size_t index,
                               std::string_view node, std::string plan) {
  const ClusterPod& pod = snapshot.pods[index];
  const std::int32_t priority = TRY(placeholder_priority(settings, snapshot));
  if (!pod.preempts) {
    return error("its replacement cannot preempt a placeholder: its preemptionPolicy is Never");
  }
  if (pod.priority.value_or(0) <= priority) {
    return error(
        fmt::format("its replacement cannot preempt a placeholder: its priority {} is not above {}",
                    pod.priority.value_or(0), priority));
  }
  WantedRoom room;
  room.pod = {std::string(pod.pod_namespace), std::string(pod.name), std::string(pod.uid)};
  room.node = node;
  room.owner = pod.owners.front().uid;
  for (const ClusterPod& each : snapshot.pods) {
    if (!each.owners.empty() && each.owners.front().uid == room.owner) room.old.emplace(each.uid);
  }
  room.manifest = manifest_of(settings, pod, node, plan);
  room.plan = std::move(plan);
  return room;
}

bool is_placeholder(const ClusterPod& pod, std::string_view pod_namespace) {
  return pod.pod_namespace == pod_namespace &&
         rebalance::find_label(pod.labels, kPlanLabel).has_value();
}

std::string placeholder_name(const std::string& pod_uid) {
  return "placeholder-" + pod_uid;
}

kubernetes::OutgoingRequest creation_request(const std::string& pod_namespace,
                                             const std::string& manifest) {
  kubernetes::OutgoingRequest request;
  request.method = "POST";
  request.target =
      fmt::format("/api/v1/namespaces/{}/pods", kubernetes::percent_encoded(pod_namespace));
  request.body = manifest;
  return request;
}

Result<PlaceholderStatus> read_placeholder(std::string_view pod) {
  const auto document = TRY(text::JsonDocument::parse(pod));
  const text::JsonValue root = document.root();
  const text::JsonValue metadata = TRY(root.at("metadata"));
  PlaceholderStatus out;
  out.uid = TRY(metadata.text("uid"));
  if (out.uid.empty()) return metadata.wrong("expected a uid");
  if (const auto labels = TRY(metadata.find("labels"))) out.plan = TRY(labels->text(kPlanLabel));
  if (const auto spec = TRY(root.find("spec"))) out.node = TRY(spec->text("nodeName"));
  if (const auto status = TRY(root.find("status"))) {
    out.problem = kubernetes::bounded_text(TRY(problem_of(*status)));
  }
  out.terminates = TRY(metadata.find("deletionTimestamp")).has_value();
  if (out.terminates) out.problem = "another pod preempted it";
  return out;
}

}  // namespace forestall::cluster

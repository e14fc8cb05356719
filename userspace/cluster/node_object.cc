// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_object.h"

#include <algorithm>
#include <chrono>
#include <ranges>

#include "cluster/cluster_event.h"
#include "kubernetes/url.h"
#include "text/json_value.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

using Pressure = NodeCondition::Pressure;

constexpr Duration kNodeRequestLongest = std::chrono::seconds(10);

std::string target_of(const std::string& node) {
  return "/api/v1/nodes/" + kubernetes::percent_encoded(node);
}

std::string_view status_of(Pressure pressure) {
  switch (pressure) {
    case Pressure::yes: return "True";
    case Pressure::no: return "False";
    case Pressure::unknown:
    case Pressure::withdrawn: break;
  }
  return "Unknown";
}

std::string_view reason_of(Pressure pressure) {
  switch (pressure) {
    case Pressure::yes: return "ForestallHasInsufficientMemory";
    case Pressure::no: return "ForestallHasSufficientMemory";
    case Pressure::unknown:
    case Pressure::withdrawn: break;
  }
  return "ForestallAgentAway";
}

std::string_view message_of(Pressure pressure) {
  switch (pressure) {
    case Pressure::yes:
      return "a memory threshold of the agent is met, or was met a short time ago";
    case Pressure::no: return "no memory threshold of the agent is met";
    case Pressure::unknown:
    case Pressure::withdrawn: break;
  }
  return "the agent does not answer on its socket";
}

// The operations of a JSON patch (RFC 6902).
class JsonPatch {
 public:
  JsonPatch() : out_(text::JsonLayout::one_line) { out_.begin_list(); }

  text::JsonWriter& begin(std::string_view operation, const std::string& path) {
    out_.begin_object();
    out_.member("op", operation);
    out_.member("path", path);
    return out_;
  }
  void end() {
    out_.end_object();
    ++operations_;
  }
  [[nodiscard]] bool empty() const { return operations_ == 0; }
  [[nodiscard]] std::string take() && {
    out_.end_list();
    return std::move(out_).take();
  }

 private:
  text::JsonWriter out_;
  std::size_t operations_ = 0;
};

void patch_annotation(const NodeObject& object, const NodeCondition& report, std::int64_t wall,
                      JsonPatch& patch) {
  if (report.pressure == Pressure::withdrawn) return;
  const bool unguarded = report.unguarded;
  if (object.is_unguarded == unguarded) return;
  const std::string path = "/metadata/annotations/forestall.dev~1unguarded";
  if (!unguarded) {
    (void)patch.begin("remove", path);
  } else if (object.has_annotations) {
    patch.begin("add", path).member("value", api_time(wall));
  } else {
    text::JsonWriter& out = patch.begin("add", "/metadata/annotations");
    out.key("value");
    out.begin_object();
    out.member(kUnguardedAnnotation, api_time(wall));
    out.end_object();
  }
  patch.end();
}

void write_taint(text::JsonWriter& out) {
  out.begin_object();
  out.member("key", kPressureTaint);
  out.member("effect", "NoSchedule");
  out.end_object();
}

void patch_taint(const NodeObject& object, bool wanted, JsonPatch& patch) {
  if (!wanted) {
    // From the last one on, so that the indices of the others remain.
    for (const std::size_t index : std::views::reverse(object.our_taints)) {
      (void)patch.begin("remove", "/spec/taints/" + std::to_string(index));
      patch.end();
    }
    return;
  }
  if (!object.our_taints.empty()) return;
  const bool is_first = object.taints == 0;
  text::JsonWriter& out = patch.begin("add", is_first ? "/spec/taints" : "/spec/taints/-");
  out.key("value");
  if (is_first) out.begin_list();
  write_taint(out);
  if (is_first) out.end_list();
  patch.end();
}

void write_condition(const NodeObject& object, Pressure pressure, std::int64_t wall,
                     text::JsonWriter& out) {
  const std::string_view status = status_of(pressure);
  out.member("status", status);
  out.member("reason", reason_of(pressure));
  out.member("message", message_of(pressure));
  out.member("lastHeartbeatTime", api_time(wall));
  // Otherwise the server keeps the time that it has.
  if (object.condition_status != status) out.member("lastTransitionTime", api_time(wall));
}

Result<void> read_taints(const text::JsonValue& spec, NodeObject& node) {
  return spec.each_in("taints", [&node](const text::JsonValue& taint) -> Result<void> {
    const std::string key = TRY(taint.text("key"));
    if (key == kPressureTaint) node.our_taints.push_back(node.taints);
    ++node.taints;
    return {};
  });
}

Result<void> read_condition(const text::JsonValue& status, NodeObject& node) {
  return status.each_in("conditions", [&node](const text::JsonValue& each) -> Result<void> {
    const std::string type = TRY(each.text("type"));
    if (type != kPressureCondition) return {};
    node.condition_status = TRY(each.text("status"));
    node.condition_heartbeat = TRY(each.text("lastHeartbeatTime"));
    return {};
  });
}

}  // namespace

Result<NodeObject> parse_node(std::string_view body) {
  const auto document = TRY(text::JsonDocument::parse(body));
  return read_node(document.root());
}

Result<NodeObject> read_node(const text::JsonValue& root) {
  NodeObject node;
  const text::JsonValue metadata = TRY(root.at("metadata"));
  node.resource_version = TRY(metadata.text("resourceVersion"));
  node.uid = TRY(metadata.text("uid"));
  if (node.resource_version.empty()) return error("the node has no resourceVersion");
  if (const auto annotations = TRY(metadata.find("annotations"))) {
    node.has_annotations = true;
    node.is_unguarded = TRY(annotations->find(kUnguardedAnnotation)).has_value();
  }
  if (const auto spec = TRY(root.find("spec"))) TRY(read_taints(*spec, node));
  if (const auto status = TRY(root.find("status"))) TRY(read_condition(*status, node));
  return node;
}

std::optional<kubernetes::OutgoingRequest> node_request(const std::string& node,
                                                        const NodeObject& object,
                                                        const NodeCondition& report, bool taint,
                                                        std::int64_t wall_seconds) {
  JsonPatch changes;
  patch_annotation(object, report, wall_seconds, changes);
  patch_taint(object, taint && report.pressure == Pressure::yes, changes);
  if (changes.empty()) return std::nullopt;
  JsonPatch patch;
  patch.begin("test", "/metadata/resourceVersion").member("value", object.resource_version);
  patch.end();
  patch_annotation(object, report, wall_seconds, patch);
  patch_taint(object, taint && report.pressure == Pressure::yes, patch);
  kubernetes::OutgoingRequest request;
  request.method = "PATCH";
  request.target = target_of(node);
  request.content_type = "application/json-patch+json";
  request.body = std::move(patch).take();
  request.longest = kNodeRequestLongest;
  return request;
}

std::optional<kubernetes::OutgoingRequest> condition_request(const std::string& node,
                                                             const NodeObject& object,
                                                             const NodeCondition& report,
                                                             std::int64_t wall_seconds) {
  const bool is_withdrawn = report.pressure == Pressure::withdrawn;
  if (is_withdrawn && object.condition_status.empty()) return std::nullopt;
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.key("status");
  out.begin_object();
  out.key("conditions");
  out.begin_list();
  out.begin_object();
  out.member("type", kPressureCondition);
  if (is_withdrawn) {
    out.member("$patch", "delete");
  } else {
    write_condition(object, report.pressure, wall_seconds, out);
  }
  out.end_object();
  out.end_list();
  out.end_object();
  out.end_object();
  kubernetes::OutgoingRequest request;
  request.method = "PATCH";
  request.target = target_of(node) + "/status";
  // It changes the condition of this type only.
  request.content_type = "application/strategic-merge-patch+json";
  request.body = std::move(out).take();
  request.longest = kNodeRequestLongest;
  return request;
}

}  // namespace forestall::cluster

// SPDX-License-Identifier: Apache-2.0
#include "cluster/eviction_request.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "kubernetes/url.h"
#include "text/json_value.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

std::string path_of(const PodTarget& pod) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}",
                     kubernetes::percent_encoded(pod.pod_namespace),
                     kubernetes::percent_encoded(pod.name));
}

void write_preconditions(text::JsonWriter& out, const std::string& uid) {
  out.key("preconditions");
  out.begin_object();
  out.member("uid", uid);
  out.end_object();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

kubernetes::OutgoingRequest eviction_request(const PodTarget& pod, bool old_version,
                                             std::optional<std::int64_t> grace,
                                             std::string_view reason) {
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("apiVersion", old_version ? "policy/v1beta1" : "policy/v1");
  out.member("kind", "Eviction");
  out.key("metadata");
  out.begin_object();
  out.member("name", pod.name);
  out.member("namespace", pod.pod_namespace);
  if (!reason.empty()) {
    out.key("annotations");
    out.begin_object();
    out.member("reason", reason);
    out.member("requested-by", "forestall");
    out.end_object();
  }
  out.end_object();
  out.key("deleteOptions");
  out.begin_object();
  if (grace) out.member("gracePeriodSeconds", *grace);
  write_preconditions(out, pod.uid);
  out.end_object();
  out.end_object();
  kubernetes::OutgoingRequest request;
  request.method = "POST";
  request.target = path_of(pod) + "/eviction";
  request.body = std::move(out).take();
  return request;
}

kubernetes::OutgoingRequest deletion_request(const PodTarget& pod) {
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("apiVersion", "v1");
  out.member("kind", "DeleteOptions");
  write_preconditions(out, pod.uid);
  out.end_object();
  kubernetes::OutgoingRequest request;
  request.method = "DELETE";
  request.target = path_of(pod);
  request.body = std::move(out).take();
  return request;
}

kubernetes::OutgoingRequest pod_request(const PodTarget& pod) {
  kubernetes::OutgoingRequest request;
  request.target = path_of(pod);
  return request;
}

Result<bool> is_evicted(std::string_view pod, const std::string& uid) {
  const auto document = TRY(text::JsonDocument::parse(pod));
  const text::JsonValue root = document.root();
  const text::JsonValue metadata = TRY(root.at("metadata"));
  const std::string its_uid = TRY(metadata.text("uid"));
  if (its_uid.empty()) return metadata.wrong("expected a uid");
  return its_uid != uid || TRY(metadata.find("deletionTimestamp")).has_value();
}

// Two layers of the API server check it, in different words.
bool is_of_other_pod(const kubernetes::ApiStatus& status) {
  return status.is_object && status.code == 409 &&
         (contains(status.message, "UID in precondition") ||
          contains(status.message, "UID in the precondition"));
}

bool is_of_no_pod(const kubernetes::ApiStatus& status, std::string_view pod_namespace,
                  std::string_view name) {
  // A webhook chooses the code, the reason and the details of its denial.
  if (is_of_webhook(status)) return false;
  return status.is_without("pods", name) || status.is_without("namespaces", pod_namespace);
}

// pkg/registry/core/pod/storage/eviction.go.
bool is_of_budget(const kubernetes::ApiStatus& status) {
  if (status.code == 429) return status.has_cause("DisruptionBudget");
  return status.code == 500 && contains(status.message, "more than one PodDisruptionBudget");
}

// apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
bool is_of_webhook(const kubernetes::ApiStatus& status) {
  return status.message.starts_with("admission webhook ") &&
         contains(status.message, " denied the request");
}

bool is_of_other_version(const kubernetes::ApiStatus& status) {
  return status.code == 400 && contains(status.message, "no kind \"Eviction\" is registered");
}

}  // namespace forestall::cluster

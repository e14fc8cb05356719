// SPDX-License-Identifier: Apache-2.0
// Requests that delete a pod, and what their refusals and lost answers mean. Each names the UID:
// the server refuses it for a later pod of the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kubernetes/api_status.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

struct PodTarget {
  std::string pod_namespace;
  std::string name;
  std::string uid;
};

// `old_version`: policy/v1beta1, of servers before 1.22. `grace`: seconds; nothing: the pod's own.
// `reason`: for webhooks and audit logs, as an annotation of the Eviction; empty: none.
[[nodiscard]] kubernetes::OutgoingRequest eviction_request(const PodTarget& pod, bool old_version,
                                                           std::optional<std::int64_t> grace,
                                                           std::string_view reason = {});
// Without regard to PodDisruptionBudgets.
[[nodiscard]] kubernetes::OutgoingRequest deletion_request(const PodTarget& pod);

[[nodiscard]] kubernetes::OutgoingRequest pod_request(const PodTarget& pod);

// Of the pod with this name, as the API server has it: whether it is another one, or terminates.
// Errors: it is not a pod.
[[nodiscard]] Result<bool> is_evicted(std::string_view pod, const std::string& uid);

// A later pod has the name.
[[nodiscard]] bool is_of_other_pod(const kubernetes::ApiStatus& status);
// There is no such pod, or not even its namespace. A 404 of anything between here and the API
// server is not of that.
[[nodiscard]] bool is_of_no_pod(const kubernetes::ApiStatus& status, std::string_view pod_namespace,
                                std::string_view name);
// PodDisruptionBudgets refuse the eviction.
[[nodiscard]] bool is_of_budget(const kubernetes::ApiStatus& status);
// An admission webhook denies the eviction: it chooses the code and the time to wait.
[[nodiscard]] bool is_of_webhook(const kubernetes::ApiStatus& status);
// The server has another version of the kind Eviction.
[[nodiscard]] bool is_of_other_version(const kubernetes::ApiStatus& status);

}  // namespace forestall::cluster

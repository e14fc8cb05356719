// SPDX-License-Identifier: Apache-2.0
// How the API server describes a failure: an object of kind Status (apimachinery
// pkg/apis/meta/v1/types.go), or, from its overload filter and from proxies, plain text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace forestall::text {
class JsonValue;
}

namespace forestall::kubernetes {

struct ApiStatus {
  int code = 0;                         // the HTTP status, or that of the object
  bool is_object = false;               // a Status, so of the API server; else maybe of a proxy
  std::string reason;                   // "TooManyRequests"; empty: not given, or no Status
  std::string message;                  // printable; truncated
  std::vector<std::string> causes;      // reasons of details.causes, at most eight
  std::optional<Duration> retry_after;  // details.retryAfterSeconds
  std::string kind;                     // details.kind: "pods"
  std::string name;                     // details.name: of that object

  [[nodiscard]] bool has_cause(std::string_view cause) const;
  // The API server refuses the request, and will refuse the same one later. A refusal without a
  // Status may be of a proxy; 401 may be of the former token, 408 and 429 are of overload, 409 of a
  // concurrent change.
  [[nodiscard]] bool is_final() const;
  // The server has no such object, such as {"pods", "web-0"}. A 404 without that may be of a proxy.
  [[nodiscard]] bool is_without(std::string_view its_kind, std::string_view its_name) const;
  // "429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget."
  [[nodiscard]] std::string text() const;
};

// Text that came from a server, which may be any program, or from a tenant: one printable line of
// at most `longest` bytes of it.
[[nodiscard]] std::string bounded_text(std::string_view text, std::size_t longest = 512);

// Of an answer with the HTTP status `code`. What is not a Status is the message.
[[nodiscard]] ApiStatus parse_api_status(int code, std::string_view body);
// Of an object, such as that of a watch's ERROR event. `code` counts if the object has none.
[[nodiscard]] ApiStatus read_api_status(int code, const text::JsonValue& object);

// The body of an answer with a code of success. Errors: it is no object of the API server, or a
// Status other than Success. A proxy between here and the API server may answer in its place.
[[nodiscard]] Result<void> check_accepted(std::string_view body);

}  // namespace forestall::kubernetes

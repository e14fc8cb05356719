// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/api_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/parse.h"
#include "base/printable.h"
#include "kubernetes/retry_after.h"
#include "text/json_value.h"

namespace forestall::kubernetes {
namespace {

constexpr std::size_t kMessageMax = 512;
constexpr std::size_t kReasonMax = 64;
constexpr std::size_t kCausesMax = 8;
constexpr std::size_t kNameMax = 253;  // of objects

Result<void> read_details(const text::JsonValue& object, ApiStatus& status) {
  const auto details = TRY(object.find("details"));
  if (!details) return {};
  status.kind = bounded_text(TRY(details->text("kind")), kNameMax);
  status.name = bounded_text(TRY(details->text("name")), kNameMax);
  if (const auto seconds = TRY(details->find("retryAfterSeconds"))) {
    const std::int64_t wanted = TRY(seconds->integer());
    if (wanted > 0) status.retry_after = parse_retry_after(std::to_string(wanted), "");
  }
  return details->each_in("causes", [&](const text::JsonValue& cause) -> Result<void> {
    if (status.causes.size() >= kCausesMax) return {};
    // Some causes have only a message: "The disruption budget web is still being processed…".
    std::string reason = TRY(cause.text("reason"));
    if (reason.empty()) reason = TRY(cause.text("message"));
    status.causes.push_back(bounded_text(reason, kMessageMax));
    return {};
  });
}

Result<void> read_fields(const text::JsonValue& object, ApiStatus& status) {
  status.message = bounded_text(TRY(object.text("message")), kMessageMax);
  status.reason = bounded_text(TRY(object.text("reason")), kReasonMax);
  if (const auto code = TRY(object.find("code"))) {
    const std::int64_t value = TRY(code->integer());
    if (value >= 100 && value <= 599) status.code = static_cast<int>(value);
  }
  return read_details(object, status);
}

}  // namespace

std::string bounded_text(std::string_view text, std::size_t longest) {
  return printable(trim(text.substr(0, longest)));
}

bool ApiStatus::has_cause(std::string_view cause) const {
  return std::ranges::find(causes, cause) != causes.end();
}

bool ApiStatus::is_final() const {
  constexpr int kNoAccess = 401;
  constexpr int kRequestTimeout = 408;
  constexpr int kConflict = 409;
  constexpr int kOverload = 429;
  return is_object && code >= 400 && code < 500 && code != kNoAccess && code != kRequestTimeout &&
         code != kConflict && code != kOverload;
}

bool ApiStatus::is_without(std::string_view its_kind, std::string_view its_name) const {
  return code == 404 && reason == "NotFound" && kind == its_kind && name == its_name;
}

std::string ApiStatus::text() const {
  std::string all = std::to_string(code);
  if (!reason.empty()) all += ' ' + reason;
  if (!message.empty()) all += ": " + message;
  return all;
}

ApiStatus read_api_status(int code, const text::JsonValue& object) {
  ApiStatus status;
  status.code = code;
  status.is_object = true;
  if (const auto read = read_fields(object, status); !read && status.message.empty()) {
    status.message = bounded_text(read.error().text(), kMessageMax);
  }
  return status;
}

ApiStatus parse_api_status(int code, std::string_view body) {
  const auto document = text::JsonDocument::parse(body);
  if (document) {
    const text::JsonValue root = document->root();
    const auto kind = root.text("kind");
    if (kind && *kind == "Status") {
      ApiStatus status = read_api_status(code, root);
      status.code = code;  // what the server did, not what the object states
      return status;
    }
  }
  ApiStatus status;
  status.code = code;
  status.message = bounded_text(body, kMessageMax);
  return status;
}

Result<void> check_accepted(std::string_view body) {
  const auto document = TRY(text::JsonDocument::parse(body));
  const text::JsonValue root = document.root();
  const std::string kind = TRY(root.text("kind"));
  if (kind.empty()) return error("the answer is not an object of the API server: it has no kind");
  if (kind != "Status") return {};
  const std::string status = TRY(root.text("status"));
  return status == "Success" ? Result<void>() : error("the answer has the status '" + status + "'");
}

}  // namespace forestall::kubernetes

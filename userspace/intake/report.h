// SPDX-License-Identifier: Apache-2.0
// Collects the problems of one file whose fields have FieldPositions; every check identifies the
// field by its path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "intake/amounts.h"
#include "messages/yaml_message.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// "'<key>' <problem>". A colon separates the key from a problem that begins with a quoted value.
[[nodiscard]] inline std::string about(const std::string& key, const std::string& message) {
  return "'" + key + "'" + (message.starts_with('\'') ? ": " : " ") + message;
}

// The arguments must outlive this object.
class Report {
 public:
  Report(const std::string& file, const messages::FieldPositions& places, text::Findings& findings)
      : file_(file), places_(places), findings_(findings) {}

  void error(std::string_view path, std::string message) {
    findings_.errors.push_back({at_value(path), std::move(message)});
  }
  // The map at `path` must have a field and does not, unless an earlier error was about this field.
  void missing(const std::string& path, const std::string& key, const std::string& advice) {
    if (places_.incomplete(path) || places_.has(path + "." + key)) return;
    error(path, "'" + key + "' is missing; " + advice);
  }
  void warn(std::string_view path, std::string message) {
    findings_.warnings.push_back({at_value(path), std::move(message)});
  }
  void warn_at_key(std::string_view path, std::string message) {
    findings_.warnings.push_back({at_key(path), std::move(message)});
  }

  // The value of `result`, or nothing after an error.
  template <typename T>
  std::optional<T> take(Result<T> result, const std::string& path, const std::string& key) {
    if (result) return std::move(result).value();
    error(path, about(key, result.error().message));
    return std::nullopt;
  }

  // Whether the field was given, possibly empty.
  [[nodiscard]] bool has(std::string_view path) const { return places_.has(path); }

  void doubt(const std::string& amount, const std::string& path) {
    if (const auto doubt = doubt_amount(amount)) warn(path, *doubt);
  }

  [[nodiscard]] std::uint32_t line(std::string_view path) const { return places_.key(path).line; }
  [[nodiscard]] text::Origin at_key(std::string_view path) const {
    return {file_, places_.key(path)};
  }
  [[nodiscard]] text::Origin at_value(std::string_view path) const {
    return {file_, places_.value(path)};
  }

 private:
  const std::string& file_;
  const messages::FieldPositions& places_;
  text::Findings& findings_;
};

}  // namespace forestall::intake

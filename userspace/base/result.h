// SPDX-License-Identifier: Apache-2.0
// Errors as values: Result<T> holds a T or an Error, and the caller must check it.
//
// C++20 has no std::expected, and the status types of common libraries lose errno. TRY() is a GNU
// statement expression, which both compilers that can build Forestall support.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace forestall {

// What failed, in words that an operator can act on, with the errno that caused it (0 if no system
// call failed, e.g. for a parse error).
struct Error {
  int code = 0;
  std::string message;  // operation and object, without the strerror text

  // "openat memory.stat: No such file or directory"; only the message if code is 0.
  [[nodiscard]] std::string text() const;
  // The same error with its location prepended: "<where>: <message>".
  [[nodiscard]] Error in(std::string_view where) const;

  friend bool operator==(const Error&, const Error&) = default;
};

// An Error from the current errno. `operation` is the system call, `object` its argument.
[[nodiscard]] Error errno_error(std::string_view operation, std::string_view object);
[[nodiscard]] Error error(std::string message);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }

  // REQUIRES: !ok().
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

  // The value, or nothing: for readings for which "unknown" is a valid value.
  [[nodiscard]] std::optional<T> optional() const {
    return ok() ? std::optional<T>(std::get<0>(state_)) : std::nullopt;
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {}
  [[nodiscard]] const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace forestall

// Evaluates to the value of a Result, or returns its Error from the enclosing function.
#define TRY(expression)                              \
  ({                                                 \
    auto try_result = (expression);                  \
    if (!try_result.ok()) return try_result.error(); \
    std::move(try_result).value();                   \
  })

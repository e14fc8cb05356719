// SPDX-License-Identifier: Apache-2.0
#include "text/json_output.h"

namespace forestall::text {

JsonOutput JsonOutput::list() {
  JsonOutput made;
  made.value_ = List();
  return made;
}

JsonOutput JsonOutput::object() {
  JsonOutput made;
  made.value_ = Object();
  return made;
}

JsonOutput& JsonOutput::add(JsonOutput item) {
  std::get<List>(value_).push_back(std::move(item));
  return *this;
}

JsonOutput& JsonOutput::set(std::string key, JsonOutput value) {
  std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
  return *this;
}

std::string JsonOutput::line() const {
  JsonWriter out(JsonLayout::one_line);
  write(out);
  return std::move(out).take();
}

std::string JsonOutput::pretty() const {
  JsonWriter out;
  write(out);
  return std::move(out).take();
}

void JsonOutput::write(JsonWriter& out) const {
  if (std::holds_alternative<std::monostate>(value_)) return out.null();
  if (const auto* const items = std::get_if<List>(&value_)) {
    out.begin_list();
    for (const JsonOutput& each : *items) each.write(out);
    return out.end_list();
  }
  if (const auto* const members = std::get_if<Object>(&value_)) {
    out.begin_object();
    for (const auto& [key, value] : *members) {
      out.key(key);
      value.write(out);
    }
    return out.end_object();
  }
  if (const auto* const flag = std::get_if<bool>(&value_)) return out.value(*flag);
  if (const auto* const whole = std::get_if<std::int64_t>(&value_)) return out.value(*whole);
  if (const auto* const amount = std::get_if<std::uint64_t>(&value_)) return out.value(*amount);
  if (const auto* const real = std::get_if<double>(&value_)) return out.value(*real);
  out.value(std::get<std::string>(value_));
}

}  // namespace forestall::text

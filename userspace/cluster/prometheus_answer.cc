// SPDX-License-Identifier: Apache-2.0
#include "cluster/prometheus_answer.h"

#include <fmt/format.h>

#include <charconv>

#include "kubernetes/api_status.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

// Answers to queries that Prometheus refuses; they have a body as those that it accepts.
constexpr int kBadRequest = 400;
constexpr int kUnprocessable = 422;

Error not_captured(std::string_view kind, std::string_view problem) {
  return error(fmt::format("unable to capture prometheus metrics: {}: {}", kind,
                           kubernetes::bounded_text(std::string(problem))));
}

Error refused(int code) {
  if (code / 100 == 4) return not_captured("client_error", fmt::format("client error: {}", code));
  if (code / 100 == 5) return not_captured("server_error", fmt::format("server error: {}", code));
  return not_captured("bad_response", fmt::format("bad response code {}", code));
}

// Empty if there is none.
std::string text_in(const text::JsonValue& object, std::string_view key) {
  auto text = object.text(key);
  return text ? *std::move(text) : "";
}

// As Go's ParseFloat: "+Inf", "-Inf" and "NaN" are numbers.
Result<double> number_of(const text::JsonValue& item) {
  const std::string text = TRY(item.string_or_number());
  const std::string_view number = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  if (read.ec == std::errc() && read.ptr == number.data() + number.size()) return value;
  return item.wrong(fmt::format("expected a number, found '{}'", text));
}

Result<PrometheusValue> sample_of(const text::JsonValue& sample) {
  PrometheusValue out;
  if (const auto metric = TRY(sample.find("metric"))) {
    if (const auto name = TRY(metric->find("instance"))) out.instance = TRY(name->string());
  }
  const text::JsonValue pair = TRY(sample.at("value"));
  std::size_t index = 0;
  const auto read_number = [&](const text::JsonValue& item) -> Result<void> {
    if (index++ == 1) out.value = TRY(number_of(item));
    return {};
  };
  TRY(pair.each(read_number));
  if (index != 2) return pair.wrong("expected a time and a value");
  return out;
}

Result<std::vector<PrometheusValue>> samples_of(const text::JsonValue& root) {
  std::vector<PrometheusValue> samples;
  const text::JsonValue data = TRY(root.at("data"));
  TRY(data.append_all("result", &sample_of, samples));
  return samples;
}

}  // namespace

Result<std::vector<PrometheusValue>> parse_prometheus_answer(int code, std::string_view body) {
  const bool refuses = code == kBadRequest || code == kUnprocessable;
  if (code / 100 != 2 && !refuses) return refused(code);
  const auto document = text::JsonDocument::parse(body);
  if (!document) return not_captured("bad_response", document.error().text());
  const text::JsonValue root = document->root();
  const auto status = root.text("status");
  if (!status) return not_captured("bad_response", status.error().text());
  if (*status == "error") {
    return not_captured(text_in(root, "errorType"), text_in(root, "error"));
  }
  if (refuses) return not_captured("bad_response", "inconsistent body for response code");
  const auto data = root.at("data");
  if (!data) return not_captured("bad_response", data.error().text());
  const std::string type = text_in(*data, "resultType");
  if (type != "vector") {
    return error(
        fmt::format("expected query results to be of type \"vector\", got \"{}\" instead", type));
  }
  auto samples = samples_of(root);
  if (!samples) return not_captured("bad_response", samples.error().text());
  return samples;
}

}  // namespace forestall::cluster

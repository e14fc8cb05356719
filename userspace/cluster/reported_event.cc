// SPDX-License-Identifier: Apache-2.0
#include "cluster/reported_event.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/json_value.h"

namespace forestall::cluster {
namespace {

// As cluster_event.cc names it.
constexpr std::string_view kComponent = "forestall";

// Nothing: another program has made it.
Result<std::optional<ReportedEvent>> read_event(const text::JsonValue& object) {
  ReportedEvent event;
  const auto source = TRY(object.find("source"));
  if (!source || TRY(source->text("component")) != kComponent) {
    return std::optional<ReportedEvent>();
  }
  event.node = TRY(source->text("host"));
  const text::JsonValue subject = TRY(object.at("involvedObject"));
  event.kind = TRY(subject.text("kind"));
  event.object_namespace = TRY(subject.text("namespace"));
  event.name = TRY(subject.text("name"));
  event.uid = TRY(subject.text("uid"));
  event.reason = TRY(object.text("reason"));
  event.message = TRY(object.text("message"));
  event.first = TRY(object.text("firstTimestamp"));
  event.last = TRY(object.text("lastTimestamp"));
  // The API server accepts any number from every user with the right to create Events.
  if (const auto count = TRY(object.find("count"))) {
    event.count = std::max<std::uint64_t>(count->amount().optional().value_or(1), 1);
  }
  const text::JsonValue metadata = TRY(object.at("metadata"));
  const auto annotations = TRY(metadata.find("annotations"));
  const auto add = [&event](std::string_view key, const text::JsonValue& value) -> Result<void> {
    event.annotations.emplace_back(key, TRY(value.string()));
    return {};
  };
  if (annotations) TRY(annotations->each_member(add));
  return std::optional(std::move(event));
}

}  // namespace

Result<ReportedEvents> read_events(ApiReader& api, const std::string& target) {
  ReportedEvents events;
  const auto visit = [&events](const text::JsonValue& object) -> Result<void> {
    auto event = read_event(object);
    if (!event) {
      if (events.unreadable++ == 0) events.problem = event.error().text();
    } else if (*event) {
      events.list.push_back(**std::move(event));
    }
    return {};
  };
  if (!TRY(api.each(target, visit))) {
    return error(fmt::format("GET {}: the API server has no Events", target));
  }
  // Times of the API (RFC 3339, UTC) are in the order of their texts.
  std::ranges::stable_sort(events.list, {}, &ReportedEvent::last);
  return events;
}

std::optional<std::string> unreadable_note(const ReportedEvents& events) {
  if (events.unreadable == 0) return std::nullopt;
  return fmt::format("{} Event{} not shown, because {} not have the form of an Event: {}",
                     events.unreadable, events.unreadable == 1 ? " is" : "s are",
                     events.unreadable == 1 ? "it does" : "they do", events.problem);
}

text::JsonOutput to_json(const ReportedEvent& event) {
  auto subject = text::JsonOutput::object();
  subject.set("kind", event.kind);
  if (!event.object_namespace.empty()) subject.set("namespace", event.object_namespace);
  subject.set("name", event.name);
  subject.set("uid", event.uid);
  auto annotations = text::JsonOutput::object();
  for (const auto& [key, value] : event.annotations) annotations.set(key, value);
  auto out = text::JsonOutput::object();
  out.set("reason", event.reason);
  out.set("object", std::move(subject));
  out.set("node", event.node);
  out.set("first", event.first);
  out.set("last", event.last);
  out.set("count", event.count);
  out.set("message", event.message);
  out.set("annotations", std::move(annotations));
  return out;
}

std::string subject_text(const ReportedEvent& event) {
  return event.kind == "Node" ? "node " + event.name
                              : fmt::format("{}/{}", event.object_namespace, event.name);
}

}  // namespace forestall::cluster

// SPDX-License-Identifier: Apache-2.0
// Values that several kinds share, and all kinds except Pod (cluster_pod.cc).
#include "descheduler/cluster_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "intake/wall_time.h"
#include "model/quantity.h"

namespace forestall::descheduler {
namespace {

using rebalance::TaintEffect;

TaintEffect effect_of(std::string_view word) {
  if (word == "NoSchedule") return TaintEffect::no_schedule;
  if (word == "PreferNoSchedule") return TaintEffect::prefer_no_schedule;
  if (word == "NoExecute") return TaintEffect::no_execute;
  return TaintEffect::other;
}

// Whether a node is ready: no condition Ready with another status than True.
Result<bool> is_ready(const text::JsonValue& conditions) {
  bool ready = true;
  const auto check_condition = [&](const text::JsonValue& each) -> Result<void> {
    const std::string type = TRY(each.text("type"));
    const std::string status = TRY(each.text("status"));
    if (type == "Ready" && status != "True") ready = false;
    return {};
  };
  TRY(conditions.each(check_condition));
  return ready;
}

rebalance::TolerationOperator toleration_operator(std::string_view word) {
  if (word.empty() || word == "Equal") return rebalance::TolerationOperator::equal;
  if (word == "Exists") return rebalance::TolerationOperator::exists;
  if (word == "Gt") return rebalance::TolerationOperator::greater;
  if (word == "Lt") return rebalance::TolerationOperator::less;
  return rebalance::TolerationOperator::unknown;
}

}  // namespace

void ObjectReader::expect(std::size_t objects) {
  auto& pods = snapshot_.pods;
  if (pods.capacity() - pods.size() >= objects) return;
  // At least twice as many, so that many short lists do not move the pods each time.
  pods.reserve(std::max(pods.size() + objects, 2 * pods.capacity()));
}

Result<std::string_view> ObjectReader::text(const Value& value) {
  return snapshot_.texts->keep(TRY(value.string()));
}

Result<std::string_view> ObjectReader::required_text(const Value& object, std::string_view key) {
  const Value member = TRY(object.at(key));
  return text(member);
}

Result<std::vector<std::string_view>> ObjectReader::texts(const Value& list) {
  std::vector<std::string_view> all;
  const auto add_text = [&](const Value& item) -> Result<void> {
    all.push_back(TRY(text(item)));
    return {};
  };
  TRY(list.each(add_text));
  return all;
}

Result<rebalance::Nanos> ObjectReader::quantity(const Value& value) {
  std::string written = TRY(value.string_or_number());
  if (const auto known = quantities_.find(written); known != quantities_.end()) {
    return known->second;
  }
  const Result<Quantity> parsed = parse_quantity(written);
  if (!parsed) return value.wrong(fmt::format("{}: '{}'", parsed.error().text(), written));
  quantities_.emplace(std::move(written), parsed->nanos);
  return parsed->nanos;
}

Result<rebalance::Amounts> ObjectReader::amounts(const Value& value) {
  rebalance::Amounts amounts;
  const auto add_amount = [&](std::string_view name, const Value& amount) -> Result<void> {
    amounts.at(snapshot_.texts->keep(name)) = amount.is_null() ? 0 : TRY(quantity(amount));
    return {};
  };
  TRY(value.each_member(add_amount));
  return amounts;
}

Result<rebalance::Labels> ObjectReader::labels(const Value& value) {
  rebalance::Labels labels;
  const auto add_label = [&](std::string_view key, const Value& label) -> Result<void> {
    labels.emplace_back(snapshot_.texts->keep(key),
                        label.is_null() ? std::string_view() : TRY(text(label)));
    return {};
  };
  TRY(value.each_member(add_label));
  std::sort(labels.begin(), labels.end());
  return labels;
}

Result<std::int64_t> ObjectReader::time(const Value& value) {
  const std::string_view written = TRY(value.string());
  const auto parsed = intake::parse_wall_time(written);
  if (!parsed) return value.wrong(fmt::format("expected a time (RFC 3339), found '{}'", written));
  return *parsed;
}

Result<rebalance::Requirement> ObjectReader::requirement(const Value& value) {
  rebalance::Requirement out;
  out.key = TRY(value.text("key"));
  const std::string word = TRY(value.text("operator"));
  const auto op = rebalance::parse_operator(word);
  if (!op) return value.wrong(fmt::format("\"{}\" is not a valid label selector operator", word));
  out.op = *op;
  const auto add_value = [&](const Value& item) -> Result<void> {
    out.values.emplace_back(TRY(item.string()));
    return {};
  };
  TRY(value.each_in("values", add_value));
  return out;
}

Result<rebalance::LabelSelector> ObjectReader::selector(const Value& value) {
  rebalance::LabelSelector out;
  if (const auto equal = TRY(value.find("matchLabels"))) {
    const auto add_equal = [&](std::string_view key, const Value& label) -> Result<void> {
      const std::string_view wanted = label.is_null() ? std::string_view() : TRY(label.string());
      out.requirements.push_back(
          {std::string(key), rebalance::Operator::in, {std::string(wanted)}});
      return {};
    };
    TRY(equal->each_member(add_equal));
  }
  const auto add_expression = [&](const Value& item) -> Result<void> {
    out.requirements.push_back(TRY(requirement(item)));
    return {};
  };
  TRY(value.each_in("matchExpressions", add_expression));
  // The order of the keys of matchLabels means nothing.
  std::stable_sort(out.requirements.begin(), out.requirements.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  return out;
}

Result<rebalance::NodeSelectorTerm> ObjectReader::node_term(const Value& value) {
  rebalance::NodeSelectorTerm term;
  const auto add_term_expression = [&](const Value& item) -> Result<void> {
    term.expressions.push_back(TRY(requirement(item)));
    return {};
  };
  TRY(value.each_in("matchExpressions", add_term_expression));
  const auto add_term_field = [&](const Value& item) -> Result<void> {
    term.fields.push_back(TRY(requirement(item)));
    return {};
  };
  TRY(value.each_in("matchFields", add_term_field));
  return term;
}

Result<rebalance::Taint> ObjectReader::taint(const Value& value) {
  rebalance::Taint taint;
  const auto read_taint = [&](std::string_view key, const Value& member) -> Result<void> {
    if (member.is_null()) return {};
    if (key == "key") taint.key = TRY(text(member));
    if (key == "value") taint.value = TRY(text(member));
    if (key == "effect") taint.effect = effect_of(TRY(member.string()));
    return {};
  };
  TRY(value.each_member(read_taint));
  return taint;
}

Result<rebalance::PodToleration> ObjectReader::toleration(const Value& value) {
  rebalance::PodToleration out;
  const auto read_toleration = [&](std::string_view key, const Value& member) -> Result<void> {
    if (member.is_null()) return {};
    if (key == "key") out.key = TRY(text(member));
    if (key == "value") out.value = TRY(text(member));
    if (key == "operator") {
      out.op = toleration_operator(TRY(member.string()));
    }
    if (key == "effect") {
      const std::string_view word = TRY(member.string());
      if (!word.empty()) out.effect = effect_of(word);
    }
    return {};
  };
  TRY(value.each_member(read_toleration));
  return out;
}

Result<void> ObjectReader::add_node(const Value& object) {
  rebalance::Node node;
  const Value metadata = TRY(object.at("metadata"));
  node.name = TRY(required_text(metadata, "name"));
  if (const auto found = TRY(metadata.find("labels"))) node.labels = TRY(labels(*found));
  if (const auto spec = TRY(object.find("spec"))) {
    if (const auto cordoned = TRY(spec->find("unschedulable"))) {
      node.unschedulable = TRY(cordoned->boolean());
    }
    const auto add_taint = [&](const Value& item) -> Result<void> {
      node.taints.push_back(TRY(taint(item)));
      return {};
    };
    TRY(spec->each_in("taints", add_taint));
  }
  if (const auto status = TRY(object.find("status"))) {
    if (const auto list = TRY(status->find("capacity"))) node.capacity = TRY(amounts(*list));
    if (const auto list = TRY(status->find("allocatable"))) node.allocatable = TRY(amounts(*list));
    if (const auto list = TRY(status->find("conditions"))) node.ready = TRY(is_ready(*list));
  }
  snapshot_.nodes.push_back(std::move(node));
  return {};
}

Result<void> ObjectReader::add_namespace(const Value& object) {
  rebalance::ClusterNamespace out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto found = TRY(metadata.find("labels"))) out.labels = TRY(labels(*found));
  snapshot_.namespaces.push_back(std::move(out));
  return {};
}

Result<void> ObjectReader::add_budget(const Value& object) {
  rebalance::DisruptionBudget out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto name = TRY(metadata.find("namespace"))) out.pod_namespace = TRY(text(*name));
  if (const auto spec = TRY(object.find("spec"))) {
    if (const auto found = TRY(spec->find("selector"))) out.selector = TRY(selector(*found));
  }
  if (const auto status = TRY(object.find("status"))) {
    if (const auto allowed = TRY(status->find("disruptionsAllowed"))) {
      const std::int64_t count = TRY(allowed->integer());
      constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
      out.disruptions_allowed = static_cast<std::int32_t>(std::clamp(count, -kMax, kMax));
    }
  }
  snapshot_.budgets.push_back(std::move(out));
  return {};
}

Result<void> ObjectReader::add_claim(const Value& object) {
  rebalance::VolumeClaim out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto name = TRY(metadata.find("namespace"))) out.pod_namespace = TRY(text(*name));
  if (const auto spec = TRY(object.find("spec"))) {
    if (const auto found = TRY(spec->find("storageClassName"))) {
      out.storage_class = TRY(text(*found));
    }
    if (const auto found = TRY(spec->find("volumeName"))) out.volume = TRY(text(*found));
  }
  snapshot_.claims.push_back(out);
  return {};
}

Result<void> ObjectReader::add_volume(const Value& object) {
  rebalance::PersistentVolume out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto found = TRY(metadata.find("labels"))) out.labels = TRY(labels(*found));
  const auto spec = TRY(object.find("spec"));
  const auto affinity = spec ? TRY(spec->find("nodeAffinity")) : std::nullopt;
  if (const auto required = affinity ? TRY(affinity->find("required")) : std::nullopt) {
    auto& terms = out.nodes.emplace();
    const auto add_volume_term = [&](const Value& item) -> Result<void> {
      terms.push_back(TRY(node_term(item)));
      return {};
    };
    TRY(required->each_in("nodeSelectorTerms", add_volume_term));
  }
  snapshot_.volumes.push_back(std::move(out));
  return {};
}

Result<void> ObjectReader::add_priority_class(const Value& object) {
  rebalance::PriorityClass out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto value = TRY(object.find("value"))) {
    const std::int64_t number = TRY(value->integer());
    out.value = static_cast<std::int32_t>(number);
    if (out.value != number) return value->wrong("does not fit into 32 bits");
  }
  snapshot_.priority_classes.push_back(std::move(out));
  return {};
}

// Of the API server an unknown one is null.
Result<std::optional<std::int64_t>> ObjectReader::sample_time(const Value& object) {
  const auto timestamp = TRY(object.find("timestamp"));
  if (!timestamp || timestamp->is_null()) return std::optional<std::int64_t>();
  return std::optional(TRY(time(*timestamp)));
}

Result<void> ObjectReader::add_node_metrics(const Value& object) {
  rebalance::MetricsSample out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto usage = TRY(object.find("usage"))) out.usage = TRY(amounts(*usage));
  out.time_ns = TRY(sample_time(object));
  snapshot_.node_metrics.push_back(std::move(out));
  return {};
}

Result<void> ObjectReader::add_pod_metrics(const Value& object) {
  rebalance::MetricsSample out;
  const Value metadata = TRY(object.at("metadata"));
  out.name = TRY(required_text(metadata, "name"));
  if (const auto name = TRY(metadata.find("namespace"))) out.pod_namespace = TRY(text(*name));
  std::size_t containers = 0;
  std::vector<std::string_view> found;  // once for each container that has the resource
  const auto add_usage = [&](const Value& item) -> Result<void> {
    ++containers;
    const auto usage = TRY(item.find("usage"));
    if (!usage) return {};
    const rebalance::Amounts amounts_of_one = TRY(amounts(*usage));
    for (const rebalance::Amount& each : amounts_of_one) found.push_back(each.resource);
    out.usage.add(amounts_of_one);
    return {};
  };
  TRY(object.each_in("containers", add_usage));
  for (const rebalance::Amount& each : out.usage) {
    const auto count = std::ranges::count(found, each.resource);
    if (std::cmp_less(count, containers)) out.incomplete.push_back(each.resource);
  }
  out.time_ns = TRY(sample_time(object));
  snapshot_.pod_metrics.push_back(std::move(out));
  return {};
}

Result<void> ObjectReader::add_prometheus_sample(const Value& sample) {
  rebalance::PrometheusSample out;
  if (const auto metric = TRY(sample.find("metric"))) {
    if (const auto name = TRY(metric->find("instance"))) out.instance = TRY(text(*name));
  }
  const Value pair = TRY(sample.at("value"));
  std::size_t index = 0;
  const auto read_number = [&](const Value& item) -> Result<void> {
    if (index++ != 1) return {};
    const std::string number = TRY(item.string_or_number());
    const auto read = std::from_chars(number.data(), number.data() + number.size(), out.value);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) {
      return item.wrong(fmt::format("expected a number, found '{}'", number));
    }
    return {};
  };
  TRY(pair.each(read_number));
  if (index != 2) return pair.wrong("expected a time and a value");
  snapshot_.prometheus.push_back(out);
  return {};
}

Result<void> ObjectReader::add_prometheus(const Value& answer) {
  snapshot_.has_prometheus = true;
  const auto add_sample = [this](const Value& sample) { return add_prometheus_sample(sample); };
  const auto found = answer.find("data");
  if (!found) return answer.each(add_sample);  // a list
  if (TRY(answer.find("errorType"))) {
    return answer.wrong("Prometheus answered with an error: " + TRY(answer.text("error")));
  }
  const Value data = *found ? **found : answer;
  const std::string type = TRY(data.text("resultType"));
  if (type != "vector") {
    return data.wrong(
        fmt::format("expected query results to be of type \"vector\", got \"{}\" instead", type));
  }
  return data.each_in("result", add_sample);
}

Result<void> ObjectReader::add(std::string_view kind, const Value& object) {
  if (kind == "Pod") return add_pod(object);
  if (kind == "Node") return add_node(object);
  if (kind == "Namespace") return add_namespace(object);
  if (kind == "PodDisruptionBudget") return add_budget(object);
  if (kind == "PersistentVolumeClaim") return add_claim(object);
  if (kind == "PersistentVolume") return add_volume(object);
  if (kind == "PriorityClass") return add_priority_class(object);
  if (kind == "NodeMetrics") return add_node_metrics(object);
  if (kind == "PodMetrics") return add_pod_metrics(object);
  if (kind == "NodeReport") return add_node_report(object);
  return {};
}

}  // namespace forestall::descheduler

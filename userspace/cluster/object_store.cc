// SPDX-License-Identifier: Apache-2.0
#include "cluster/object_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "cluster/stored_bytes.h"
#include "descheduler/cluster_objects.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

// Texts of objects that are gone, before a new list is worth its costs.
constexpr std::size_t kUnusedTextsMin = std::size_t{16} << 20;
// Amounts that are remembered: a cluster has few distinct ones.
constexpr std::size_t kQuantitiesMax = 10'000;

struct ObjectName {
  std::string_view name_space;
  std::string_view name;

  friend bool operator==(const ObjectName&, const ObjectName&) = default;
};

struct ObjectNameHash {
  std::size_t operator()(const ObjectName& each) const {
    const std::hash<std::string_view> hash;
    return hash(each.name_space) * 31 + hash(each.name);
  }
};

template <typename Object>
ObjectName name_of(const Object& object) {
  if constexpr (requires { object.pod_namespace; }) {
    return {object.pod_namespace, object.name};
  } else {
    return {{}, object.name};
  }
}

// Calls `visit` with the snapshot's list of the kind.
template <typename Objects, typename Visit>
void with_list(std::string_view kind, Objects& snapshot, Visit visit) {
  if (kind == "Pod") return visit(snapshot.pods);
  if (kind == "Node") return visit(snapshot.nodes);
  if (kind == "Namespace") return visit(snapshot.namespaces);
  if (kind == "PodDisruptionBudget") return visit(snapshot.budgets);
  if (kind == "PriorityClass") return visit(snapshot.priority_classes);
  if (kind == "PersistentVolumeClaim") return visit(snapshot.claims);
  if (kind == "PersistentVolume") return visit(snapshot.volumes);
}

}  // namespace

// The objects of one list and of the changes since then. Texts are never removed from a pool, so
// the next list begins with a new one.
struct ObjectStore::Copy {
  rebalance::Snapshot objects;
  std::unordered_map<std::string, rebalance::Nanos> quantities;
  descheduler::ObjectReader reader{objects, quantities};
  std::unordered_map<ObjectName, std::size_t, ObjectNameHash> places;  // in the list of the kind
  std::size_t bytes = 0;                                               // without texts
  std::size_t listed_text_bytes = 0;
  std::size_t changes = 0;

  [[nodiscard]] std::size_t all_bytes() const { return bytes + objects.texts->bytes(); }

  // Puts the last object of the list in the place of an older one of the same name.
  template <typename Object>
  void place_last(std::vector<Object>& list) {
    bytes += stored_bytes(list.back());
    const ObjectName name = name_of(list.back());
    const ObjectName kept{objects.texts->keep(name.name_space), objects.texts->keep(name.name)};
    const auto [found, is_new] = places.try_emplace(kept, list.size() - 1);
    if (is_new) return;
    bytes -= stored_bytes(list[found->second]);
    list[found->second] = std::move(list.back());
    list.pop_back();
  }
  template <typename Object>
  void remove(std::vector<Object>& list, const ObjectName& name) {
    const auto found = places.find(name);
    if (found == places.end()) return;
    const std::size_t place = found->second;
    places.erase(found);
    bytes -= stored_bytes(list[place]);
    if (place + 1 < list.size()) {
      list[place] = std::move(list.back());
      places.at(name_of(list[place])) = place;
    }
    list.pop_back();
  }
  void drop_unused() {
    if (quantities.size() > kQuantitiesMax) quantities.clear();
    if (++changes % (places.size() + 1) == 0) reader.drop_unused();
  }
};

ObjectStore::ObjectStore(std::string kind, std::size_t bytes_max)
    : kind_(std::move(kind)), bytes_max_(bytes_max), current_(std::make_unique<Copy>()) {}
ObjectStore::~ObjectStore() = default;

void ObjectStore::list_begins() {
  listing_ = std::make_unique<Copy>();
}

Result<void> ObjectStore::listed(const text::JsonValue& object) {
  return add(*listing_, object);
}

void ObjectStore::list_ends() {
  current_ = std::exchange(listing_, nullptr);
  current_->listed_text_bytes = current_->objects.texts->bytes();
}

Result<void> ObjectStore::add(Copy& copy, const text::JsonValue& object) {
  TRY(copy.reader.add(kind_, object));
  with_list(kind_, copy.objects, [&copy](auto& list) { copy.place_last(list); });
  copy.drop_unused();
  if (copy.all_bytes() <= bytes_max_) return {};
  return error(fmt::format("objects of more than {} bytes", bytes_max_));
}

Result<void> ObjectStore::changed(kubernetes::ChangeType type, const text::JsonValue& object) {
  if (type != kubernetes::ChangeType::deleted) return add(*current_, object);
  const text::JsonValue metadata = TRY(object.at("metadata"));
  const std::string name_space = TRY(metadata.text("namespace"));
  const std::string name = TRY(metadata.text("name"));
  with_list(kind_, current_->objects, [&](auto& list) {
    current_->remove(list, {name_space, name});
  });
  return {};
}

std::size_t ObjectStore::size() const {
  return current_->places.size();
}

std::size_t ObjectStore::bytes() const {
  return current_->all_bytes();
}

bool ObjectStore::has_live_pod(std::string_view name_space, std::string_view name,
                               std::string_view uid) const {
  const std::vector<rebalance::ClusterPod>& pods = current_->objects.pods;
  if (pods.empty()) return false;
  const auto found = current_->places.find({name_space, name});
  if (found == current_->places.end()) return false;
  const rebalance::ClusterPod& pod = pods[found->second];
  return pod.uid == uid && !pod.terminating;
}

bool ObjectStore::needs_list() const {
  const std::size_t since = current_->objects.texts->bytes() - current_->listed_text_bytes;
  if (current_->all_bytes() > bytes_max_ / 8 * 7 && since > bytes_max_ / 16) return true;
  return since > std::max(kUnusedTextsMin, current_->listed_text_bytes);
}

void ObjectStore::add_to(rebalance::Snapshot& snapshot) const {
  with_list(kind_, snapshot, [this](auto& to) {
    with_list(kind_, current_->objects, [&to](const auto& from) {
      using To = std::remove_cvref_t<decltype(to)>;
      if constexpr (std::is_same_v<To, std::remove_cvref_t<decltype(from)>>) {
        to.insert(to.end(), from.begin(), from.end());
      }
    });
  });
}

const std::shared_ptr<rebalance::StringPool>& ObjectStore::texts() const {
  return current_->objects.texts;
}

}  // namespace forestall::cluster

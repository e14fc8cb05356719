// SPDX-License-Identifier: Apache-2.0
// All objects of one kind, as the plan's snapshot has them: from a list, kept current by the
// changes of a watch. Fields that no rule reads are not stored.
//
// Objects are tenants' input. A store has at most `bytes_max` bytes; a list or change beyond that
// is an error, which ends the list or watch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "kubernetes/list_watch.h"
#include "rebalance/snapshot.h"

namespace forestall::descheduler {
class ObjectReader;
}

namespace forestall::cluster {

// Thread rule: one thread.
class ObjectStore final : public kubernetes::ObjectSink {
 public:
  // `kind` as in the API, such as "Pod".
  ObjectStore(std::string kind, std::size_t bytes_max);
  ~ObjectStore() override;

  void list_begins() override;
  [[nodiscard]] Result<void> listed(const text::JsonValue& object) override;
  void list_ends() override;
  [[nodiscard]] Result<void> changed(kubernetes::ChangeType type,
                                     const text::JsonValue& object) override;

  [[nodiscard]] std::size_t size() const;
  // About the memory of the objects and their texts.
  [[nodiscard]] std::size_t bytes() const;
  // Whether the store has this pod, and it is not requested to terminate.
  [[nodiscard]] bool has_live_pod(std::string_view name_space, std::string_view name,
                                  std::string_view uid) const;
  // Whether most of its texts are of objects that are gone, or there is little room and some are:
  // only a new list drops them.
  [[nodiscard]] bool needs_list() const;
  // Appends all objects. Their texts are in texts().
  void add_to(rebalance::Snapshot& snapshot) const;
  // A plan may use it longer than this object.
  [[nodiscard]] const std::shared_ptr<rebalance::StringPool>& texts() const;

 private:
  struct Copy;

  [[nodiscard]] Result<void> add(Copy& copy, const text::JsonValue& object);

  const std::string kind_;
  const std::size_t bytes_max_;
  std::unique_ptr<Copy> current_;
  std::unique_ptr<Copy> listing_;  // null: no list is under way
};

}  // namespace forestall::cluster

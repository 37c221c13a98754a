//! A map with a limit: when it is full, the least recently used entry is removed. Used for caches of the
//! [`crate::sender`] and of [`crate::oauth2`], whose entries are expensive to create and rarely removed.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct LruMap<K, V> {
    entries: HashMap<K, Entry<V>>,
    entries_max: usize,
    /// The number of uses so far, as the time of the last use of an entry.
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used_at: u64,
}

impl<K: Copy + Eq + Hash, V> LruMap<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), entries_max, uses: 0 }
    }

    /// Returns an entry and marks it as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used_at = self.uses;
        Some(&entry.value)
    }

    /// Inserts or replaces an entry. The search for the least recently used entry is linear, which is acceptable
    /// because a full map is rare.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        if self.entries.len() >= self.entries_max && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.entries.remove(&oldest));
        }
        self.entries.insert(key, Entry { value, used_at: self.uses });
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the values of `keys`, which marks them as used in this order.
    fn values(map: &mut LruMap<i32, char>, keys: &[i32]) -> String {
        keys.iter().map(|key| map.get(key).copied().unwrap_or('-')).collect()
    }

    #[test]
    fn least_recently_used_entry_is_removed_from_a_full_map() {
        let mut map = LruMap::new(2);
        map.insert(1, 'a');
        map.insert(2, 'b');
        map.insert(2, 'B');
        assert_eq!(values(&mut map, &[2, 1]), "Ba", "replaced, and none removed");
        map.insert(3, 'c');
        assert_eq!(values(&mut map, &[1, 2, 3]), "a-c");
        map.remove(&1);
        map.insert(4, 'd');
        assert_eq!(values(&mut map, &[1, 3, 4]), "-cd");
    }
}

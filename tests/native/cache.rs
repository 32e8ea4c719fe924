//! Pages: promises, sharing, copies on write, rewinding, and what is kept between calls.

use decant::{
    error::ErrorKind,
    generation::cache::{PageCopy, PagePool, PageTable},
};

use crate::support::random::Random;

fn pool() -> PagePool {
    PagePool::new(8, 4)
}

fn store(table: &mut PageTable, positions: usize) -> Option<PageCopy> {
    let copy = table.prepare(positions).unwrap();
    table.advance(positions);
    copy
}

fn idle(pool: &PagePool) -> bool {
    let usage = pool.usage();
    usage.used == 0 && usage.promised == 0
}

#[test]
fn pages_are_promised_first_and_taken_when_needed() {
    let pool = pool();
    let mut table = pool.table(&[1, 2, 3], 10).unwrap();
    assert_eq!((pool.usage().used, pool.usage().promised), (0, 3));
    store(&mut table, 4);
    assert_eq!((pool.usage().used, pool.usage().promised), (1, 2));
    store(&mut table, 1);
    assert_eq!(table.pages(), [0, 1]);
    store(&mut table, 5);
    assert_eq!((table.length(), pool.usage().promised), (10, 0));
    let beyond = table.prepare(1).unwrap_err();
    assert_eq!(beyond.kind(), &ErrorKind::Internal);
    drop(table);
    assert!(idle(&pool));
}

#[test]
fn running_out_is_an_error_before_the_work() {
    let pool = pool();
    let first = pool.table(&[1], 20).unwrap();
    let error = pool.table(&[1], 13).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 12 });
    let second = pool.table(&[1], 12).unwrap();
    drop(first);
    pool.table(&[1], 20).unwrap();
    drop(second);
    assert!(idle(&pool));
}

#[test]
fn a_fork_shares_pages_and_copies_the_last_one_on_write() {
    let pool = PagePool::new(16, 4);
    let mut parent = pool.table(&[], 16).unwrap();
    store(&mut parent, 6);
    let mut child = parent.fork(16).unwrap();
    assert_eq!(child.pages(), parent.pages());
    assert_eq!(pool.usage().used, 2, "nothing is copied yet");
    let copy = store(&mut child, 1).unwrap();
    assert_eq!((copy.from, copy.to), (1, 2));
    assert_eq!((child.pages(), parent.pages()), (&[0, 2][..], &[0, 1][..]));
    assert_eq!(
        store(&mut parent, 1),
        None,
        "the other is the only owner now"
    );
    assert_eq!(store(&mut child, 1), None);
    // At a page's end there is nothing to copy.
    let mut whole = child.fork(16).unwrap();
    assert_eq!(store(&mut whole, 1), None);
    assert_eq!(whole.pages()[..2], [0, 2]);
    drop((parent, child, whole));
    assert!(idle(&pool));
}

#[test]
fn whoever_writes_first_has_a_page_to_copy_to() {
    for parent_first in [true, false] {
        let pool = PagePool::new(5, 4);
        let mut parent = pool.table(&[], 8).unwrap();
        store(&mut parent, 2);
        let mut child = parent.fork(8).unwrap();
        // Both may fill all 8 positions, and both must be able to.
        let (first, second) = match parent_first {
            true => (&mut parent, &mut child),
            false => (&mut child, &mut parent),
        };
        assert!(store(first, 6).is_some());
        assert!(store(second, 6).is_none());
        assert_ne!(first.pages(), second.pages());
        drop((parent, child));
        assert!(idle(&pool));
    }
    let small = PagePool::new(3, 4);
    let mut parent = small.table(&[], 8).unwrap();
    store(&mut parent, 2);
    let error = parent.fork(8).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ContextFull { .. }));
    assert_eq!(
        store(&mut parent, 6),
        None,
        "the parent goes on undisturbed"
    );
}

#[test]
fn a_rewind_forgets_positions_and_never_writes_to_shared_pages() {
    let pool = pool();
    let mut parent = pool.table(&[], 12).unwrap();
    store(&mut parent, 10);
    parent.rewind(7).unwrap();
    assert_eq!((parent.length(), parent.pages().len()), (7, 2));
    store(&mut parent, 5);
    let mut child = parent.fork(12).unwrap();
    child.rewind(6).unwrap();
    let copy = store(&mut child, 6).unwrap();
    assert_eq!(copy.from, parent.pages()[1]);
    assert_eq!(child.pages()[0], parent.pages()[0]);
    assert!(
        child.pages()[1..]
            .iter()
            .all(|page| !parent.pages().contains(page))
    );
    drop((parent, child));
    assert!(idle(&pool));
}

/// Failure B55: a prompt that is cached as a whole still has its last token evaluated.
#[test]
fn a_prompt_that_begins_alike_takes_over_the_pages() {
    let cached = |next: &[u32]| {
        let pool = pool();
        let mut table = pool.table(&[1, 2, 3, 4, 5, 6], 12).unwrap();
        store(&mut table, 7);
        table.retain(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((pool.usage().used, pool.usage().retained), (0, 2));
        let table = pool.table(next, 16).unwrap();
        assert_eq!(pool.usage().used + pool.usage().promised, 4);
        let length = table.length();
        drop(table);
        assert!(idle(&pool));
        length
    };
    assert_eq!(cached(&[1, 2, 3, 4, 5, 6]), 5);
    assert_eq!(cached(&[1, 2, 3, 4, 5]), 4);
    assert_eq!(cached(&[1, 2, 3, 4, 5, 6, 7]), 6);
    assert_eq!(cached(&[1, 2, 3, 4, 5, 6, 7, 8]), 7);
    assert_eq!(
        cached(&[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        7,
        "8 was never evaluated"
    );
    assert_eq!(cached(&[1, 2, 9]), 2);
    assert_eq!(cached(&[1]), 0);
    assert_eq!(cached(&[2, 2, 3]), 0);
}

#[test]
fn retained_pages_count_as_free() {
    let pool = pool();
    let mut table = pool.table(&[1, 2], 20).unwrap();
    store(&mut table, 18);
    table.retain(&[1; 18]);
    assert_eq!(pool.usage().retained, 5);
    let other = pool.table(&[7], 32).unwrap();
    assert_eq!((pool.usage().retained, pool.usage().promised), (0, 8));
    drop(other);
    assert!(idle(&pool));
    // A taken-over beginning and the rest of the pool together may fill the pool.
    let mut table = pool.table(&[1, 2], 12).unwrap();
    store(&mut table, 12);
    table.retain(&[1; 12]);
    let mut all = pool.table(&[1; 10], 32).unwrap();
    assert_eq!(all.length(), 9);
    store(&mut all, 23);
    let error = pool.table(&[1], 1).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 0 });
}

/// Random work on many tables: no page is ever written by one table and read by another, and nothing is
/// lost in the end.
#[test]
fn tables_never_step_on_one_another() {
    let pool = PagePool::new(40, 4);
    let mut random = Random(11);
    // What each page's positions hold, and what each table has stored.
    let mut pages = vec![[0u32; 4]; 40];
    let mut tables: Vec<(PageTable, Vec<u32>)> = Vec::new();
    let mut value = 0;
    let mut refused = 0;
    for _ in 0..20_000 {
        match random.below(6) {
            0 => match pool.table(&[], 4 + random.below(36)) {
                Ok(table) => tables.push((table, Vec::new())),
                Err(_) => refused += 1,
            },
            1 if !tables.is_empty() => {
                let at = random.below(tables.len());
                let capacity = tables[at].0.length() + random.below(20);
                match tables[at].0.fork(capacity) {
                    Ok(fork) => {
                        let stored = tables[at].1.clone();
                        tables.push((fork, stored));
                    }
                    Err(_) => refused += 1,
                }
            }
            2 if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, mut stored) = tables.swap_remove(at);
                stored.push(0);
                if random.below(2) == 0 {
                    table.retain(&stored);
                }
            }
            3 if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, stored) = &mut tables[at];
                let length = random.below(table.length() + 1);
                if table.rewind(length).is_ok() {
                    stored.truncate(length);
                } else {
                    tables.swap_remove(at);
                    refused += 1;
                }
            }
            _ if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, stored) = &mut tables[at];
                let count = 1 + random.below(6);
                let copy = match table.prepare(count) {
                    Ok(copy) => copy,
                    Err(error) => {
                        assert!(error.to_string().contains("exceed"), "{error}");
                        continue;
                    }
                };
                if let Some(PageCopy { from, to }) = copy {
                    pages[to as usize] = pages[from as usize];
                }
                for _ in 0..count {
                    value += 1;
                    let position = stored.len();
                    pages[table.pages()[position / 4] as usize][position % 4] = value;
                    stored.push(value);
                }
                table.advance(count);
            }
            _ => {}
        }
        for (table, stored) in &tables {
            let found = (0..stored.len()).map(|at| pages[table.pages()[at / 4] as usize][at % 4]);
            assert!(
                found.eq(stored.iter().copied()),
                "a table lost what it stored"
            );
        }
    }
    assert!(refused > 100, "the pool was never full");
    tables.clear();
    assert!(idle(&pool));
}
